"""Samples cut into batches that are computed at a time."""

from __future__ import annotations

from collections.abc import Sequence

from trainers.embedded.logprobs import fed
from trainers.engines.prefix_tree import neighbours
from trainers.samples import Sample

Pair = tuple[Sample, float]
"""A sample and its advantage."""


def tree_batches(pairs: Sequence[Pair], max_tokens: int, max_samples: int | None = None) -> list[list[Pair]]:
    """Batches of neighbours in a prefix tree, of at most ``max_tokens`` of its tokens each, or of a single sample."""
    groups = neighbours([fed(sample) for sample, _ in pairs], max_tokens, max_samples)
    return [[pairs[i] for i in group] for group in groups]


def padded_batches(pairs: Sequence[Pair], max_tokens: int, max_samples: int | None = None) -> list[list[Pair]]:
    """Batches of similar length: at most ``max_tokens`` each, padding included, or a single sample."""
    batches: list[list[Pair]] = []
    longest = 0
    for pair in sorted(pairs, key=lambda pair: (len(pair[0].prompt_ids), len(pair[0].ids))):
        rows, longest = len(batches[-1]) if batches else 0, max(longest, len(fed(pair[0])))
        if not batches or (rows + 1) * longest > max_tokens or rows == max_samples:
            batches.append([])
            longest = len(fed(pair[0]))
        batches[-1].append(pair)
    return batches
