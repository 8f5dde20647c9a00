"""Prefix trees: every shared token once, and each sequence's own path through them."""

from __future__ import annotations

from random import Random

import pytest

from trainers.engines.prefix_tree import grow, shared_length


def some_sequences(seed: int) -> list[tuple[int, ...]]:
    """Up to nine sequences over three tokens, so that many begin alike, repeat each other or begin another."""
    rng = Random(seed)
    return [tuple(rng.choices((1, 2, 3), k=rng.randint(1, 6))) for _ in range(rng.randint(1, 9))]


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [
        ((), (), 0),
        ((1,), (), 0),
        ((1, 2), (1, 2), 2),
        ((1, 2, 3), (1, 2), 2),
        ((1, 2, 3), (1, 9, 3), 1),
        ((2,), (1,), 0),
    ],
)
def test_what_two_sequences_share_is_their_beginning(one, other, length):
    assert shared_length(one, other) == shared_length(other, one) == length


@pytest.mark.parametrize("seed", range(200))
def test_paths_spell_the_sequences_and_every_prefix_stands_once(seed):
    sequences = some_sequences(seed)
    tree = grow(sequences)
    assert [tuple(tree.ids[place] for place in path) for path in tree.paths] == sequences
    assert all(tree.depths[place] == i for path in tree.paths for i, place in enumerate(path))
    assert len(tree.ids) == len({one[:k] for one in sequences for k in range(1, len(one) + 1)})
    assert tree.longest == max(map(len, sequences))


@pytest.mark.parametrize("seed", range(200))
def test_a_token_is_followed_by_its_descendants_alone(seed):
    sequences = some_sequences(seed)
    tree = grow(sequences)
    prefix_at = {
        place: one[: i + 1] for one, path in zip(sequences, tree.paths, strict=True) for i, place in enumerate(path)
    }
    for q in range(len(tree.ids)):
        for k in range(len(tree.ids)):
            above = prefix_at[q][: len(prefix_at[k])] == prefix_at[k]
            assert (k <= q < tree.ends[k]) == above


@pytest.mark.parametrize("seed", range(100))
def test_segments_cover_each_pair_of_a_token_and_its_ancestor_exactly_once(seed):
    tree = grow(some_sequences(seed))
    pairs = []
    for start, stop, end in tree.segments():
        pairs += [(q, k) for k in range(start, stop) for q in range(k, stop)]
        pairs += [(q, k) for k in range(start, stop) for q in range(stop, end)]
    expected = [(q, k) for q in range(len(tree.ids)) for k in range(len(tree.ids)) if k <= q < tree.ends[k]]
    assert sorted(pairs) == sorted(expected)


def test_sequences_keep_the_order_that_they_came_in():
    tree = grow([(2, 1), (1, 1), (1,), (2, 1)])
    assert tree.ids == (1, 1, 2, 1)
    assert tree.paths == ((2, 3), (0, 1), (0,), (2, 3))
