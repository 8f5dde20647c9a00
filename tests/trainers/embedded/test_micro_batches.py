"""Samples are cut into batches that fit, and none is lost."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

pytest.importorskip("torch", reason="samples are computed with it")
pytest.importorskip("transformers", reason="samples are encoded with it")

from tests.trainers.embedded import policies
from trainers.config import Config
from trainers.embedded.logprobs import fed, padded_batches, tree_batches, tree_of
from trainers.engines.prefix_tree import BUSY
from trainers.settings import from_dict


def some_pairs(rng: Random):
    prompts = [tuple(rng.choices((1, 2), k=rng.randint(1, 9))) for _ in range(rng.randint(1, 6))]
    return [
        (policies.sample(i, prompt_ids=rng.choice(prompts), ids=tuple(range(rng.randint(1, 4)))), rng.random())
        for i in range(rng.randint(1, 30))
    ]


def tree_size(batch) -> int:
    return len(tree_of([sample for sample, _ in batch]).ids)


def padded_size(batch) -> int:
    return len(batch) * max(len(fed(sample)) for sample, _ in batch)


@pytest.mark.parametrize("max_samples", [None, 1, 3])
@pytest.mark.parametrize("max_tokens", [1, 7, 20, 10**6])
@pytest.mark.parametrize(("cut", "size"), [(tree_batches, tree_size), (padded_batches, padded_size)])
def test_batches_hold_every_sample_once_and_fit(cut, size, max_tokens, max_samples):
    rng = Random(0)
    for _ in range(30):
        pairs = some_pairs(rng)
        batches = cut(pairs, max_tokens, max_samples)
        assert sorted(pair[0].game for batch in batches for pair in batch) == sorted(pair[0].game for pair in pairs)
        assert all(pair in pairs for batch in batches for pair in batch)
        longest = max(len(fed(sample)) for sample, _ in pairs)
        assert all(size(batch) <= max(max_tokens, longest) for batch in batches)
        assert all(len(batch) <= (max_samples or len(pairs)) for batch in batches)


@pytest.mark.parametrize(("cut", "size"), [(tree_batches, tree_size), (padded_batches, padded_size)])
def test_no_batch_is_begun_before_the_last_is_full(cut, size):
    rng = Random(1)
    for _ in range(30):
        batches = cut(some_pairs(rng), 20, 5)
        for one, following in pairwise(batches):
            assert len(one) == 5 or size([*one, following[0]]) > 20


def test_a_large_batch_ends_where_little_is_shared():
    """Whole games stay together, and strangers don't join them for nothing."""
    long = BUSY // 2 + 1
    games = [tuple([first] * long) for first in (1, 2, 3)]
    pairs = [(policies.sample(i, prompt_ids=games[i // 2], ids=(7, 8)), 0.0) for i in range(6)]
    batches = tree_batches(pairs, 10**6)
    assert [[sample.game for sample, _ in batch] for batch in batches] == [
        ["game-0", "game-1"],
        ["game-2", "game-3"],
        ["game-4", "game-5"],
    ]
    shared = [(policies.sample(i, prompt_ids=(9,) * 3 * long + (i,), ids=(7,)), 0.0) for i in range(3)]
    assert len(tree_batches(shared, 10**6)) == 1


def test_samples_that_add_nothing_never_begin_a_batch():
    pairs = [(policies.sample(i, prompt_ids=(1,) * 50, ids=(7,)), 0.0) for i in range(9)]
    assert len(tree_batches(pairs, max_tokens=10)) == 1
    assert len(tree_batches(pairs, max_tokens=10, max_samples=3)) == 3


@pytest.mark.parametrize("prompt", [1000, 2500, 4000])
def test_a_game_is_one_batch_where_the_budget_is_the_default(prompt):
    """Five players, long replies, within the default --data.max_len or a longer one."""
    said = {"data": {"max_len": prompt + 201}, "rollout": {"max_new_tokens": 200, "performing": {"max_new_tokens": 50}}}
    budget = from_dict(Config, said, "test").tokens_at_a_time
    pairs = [(policies.sample(i, prompt_ids=(1,) * prompt, ids=(i, *[7] * 199)), 0.0) for i in range(5)]
    assert len(tree_batches(pairs, budget)) == 1
