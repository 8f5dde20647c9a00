"""What the update's benchmark computes; its times are for people to read."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="the benchmark runs a model")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from benchmarks.speed.throughput import SCENARIOS, WAYS, main, peak_memory, samples_of
from trainers.embedded.logprobs import fed, tree_of


def test_trees_hold_every_shared_token_once():
    trees = [len(tree_of(samples_of(scenario, 49152)).ids) for scenario in SCENARIOS]
    assert trees == [1134, 1134, 952, 1232, 2683]
    plain = [sum(len(fed(sample)) for sample in samples_of(scenario, 49152)) for scenario in SCENARIOS]
    assert plain == [5 * 575, 5 * 575, 8 * 791, 8 * 791, 5 * 2175]


@pytest.mark.parametrize("flags", [[], ["--checkpointing"]])
def test_every_way_is_timed_beside_the_plain_one(capsys, monkeypatch, flags):
    monkeypatch.setattr("benchmarks.speed.throughput.SCENARIOS", [small(SCENARIOS[0]), small(SCENARIOS[1])])
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    assert (
        main(["update", "--rounds", "1", "--layers", "1", "--vocabulary", "100", "--scenarios", "1", "2", *flags]) == 0
    )
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["tokens_tree"] for row in rows] == [50 + 30 + 5 * 3] * 2
    for row in rows:
        assert set(row["seconds"]) == set(WAYS)
        assert all(seconds > 0 for seconds in row["seconds"].values())
        assert set(row["ratio"]) == set(WAYS[1:])


def small(scenario):
    """The same layout with few tokens."""
    return replace(scenario, prompt=50, shared=20, reply=4)


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "most"), [(SCENARIOS[0], 0.6), (SCENARIOS[2], 0.3)])
def test_trees_take_less_memory(scenario, most):
    peaks = {way: peak_memory(scenario, way, layers=2, vocabulary=2048, checkpointing=False) for way in WAYS}
    assert peaks["mask"] <= most * peaks["plain"]
    assert peaks["cascade"] <= most * peaks["plain"]


@pytest.mark.slow
def test_memory_is_the_measured_process_alone():
    held_here = b"1" * 800_000_000  # more than a process with a small model
    small = replace(SCENARIOS[2], prompt=200, shared=200)
    assert peak_memory(small, "plain", layers=1, vocabulary=2048, checkpointing=False) > 10
    del held_here
