"""Token sequences that begin alike, as one tree that holds every shared token once.

Depth-first order makes visibility one line: a token sees itself and its ancestors, and k is an ancestor of q exactly if
``k <= q < end[k]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Tokens = tuple[int, ...]
BUSY = 2048  # tokens that keep a processor busy; a larger group pays only if much is shared. Ours


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """T tokens of several sequences, in depth-first order."""

    ids: Tokens  # the T tokens
    depths: tuple[int, ...]  # each token's position in its sequences
    ends: tuple[int, ...]  # for each token, the place behind its last descendant
    paths: tuple[tuple[int, ...], ...]  # for each sequence, in the order given: its tokens' places among the T

    @property
    def longest(self) -> int:
        """Return the length of the longest sequence."""
        return max(self.depths) + 1

    def segments(self) -> list[tuple[int, int, int]]:
        """Return unbranched runs of tokens as ``(start, stop, end)``.

        Tokens of a run see each other causally, and the tokens from ``stop`` up to ``end`` see the whole run.
        """
        starts = [0, *(i for i in range(1, len(self.ids)) if self.ends[i] != self.ends[i - 1])]
        return [(start, stop, self.ends[start]) for start, stop in pairwise([*starts, len(self.ids)])]


def shared_length(one: Tokens, other: Tokens) -> int:
    """Return how many tokens two sequences have in common at their beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def grow(sequences: Sequence[Tokens]) -> PrefixTree:
    """Return the tree of sequences of at least one token each; unrelated ones make several trees side by side."""
    ids: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    paths: dict[int, tuple[int, ...]] = {}
    path: list[int] = []  # of the last sequence
    last: Tokens = ()
    for i in sorted(range(len(sequences)), key=sequences.__getitem__):  # sorted, no branch is left and re-entered
        tokens = sequences[i]
        # Keep the path up to the fork, and append the tokens behind it.
        shared = shared_length(tokens, last)
        added = range(len(ids), len(ids) + len(tokens) - shared)
        path = [*path[:shared], *added]
        ids.extend(tokens[shared:])
        depths.extend(range(shared, len(tokens)))
        ends.extend([0] * len(added))
        # Every token on the path has the new ones as descendants.
        for place in path:
            ends[place] = len(ids)
        paths[i], last = tuple(path), tokens
    return PrefixTree(tuple(ids), tuple(depths), tuple(ends), tuple(paths[i] for i in range(len(sequences))))


def neighbours(sequences: Sequence[Tokens], max_tokens: int, max_sequences: int | None = None) -> list[list[int]]:
    """Return indices of sequences in groups whose trees have at most ``max_tokens``, or a single sequence.

    A group ends early if it is large and the next sequence shares less than half of its tokens with the one before.
    A sequence that adds no token never begins a group, unless ``max_sequences`` are reached.
    """
    groups: list[list[int]] = []
    size = 0  # tokens of the last group's tree
    last: Tokens = ()
    for i in sorted(range(len(sequences)), key=sequences.__getitem__):
        tokens = sequences[i]
        added = len(tokens) - shared_length(tokens, last)
        full = added and (size + added > max_tokens or (size + added > BUSY and 2 * added > len(tokens)))
        if not groups or full or len(groups[-1]) == max_sequences:
            groups.append([])
            size, added = 0, len(tokens)
        groups[-1].append(i)
        size += added
        last = tokens
    return groups
