"""Diagnostics while training: figures of the last games in the logs, warnings once each, the same after a resume."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="the policy imports it")

from spy_env import read_games
from spy_env.diagnostics import diagnose
from tests.simulated_games import games
from tests.trainers import tiny_runs, tiny_world
from trainers.disk import read_log
from trainers.embedded import loop as watching
from trainers.embedded.loop import Watch, last_games
from trainers.inspection.revoting import revoted_lead
from trainers.inspection.runs import read_runs


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, and a run of six iterations of three games."""
    place = tmp_path_factory.mktemp("runs")
    tiny_world.model_folder(place / "model", steps=20)
    tiny_runs.run(tiny_runs.config_of(place, place / "model", "whole"))
    return place


def watch_of(place, said, **train):
    config = tiny_runs.config_of(place, place / "model", train=train)
    return Watch(config.train.iterations, config.games_per_iteration, said.append)


def test_each_iteration_logs_what_the_games_so_far_say(place):
    rows = read_log(place / "whole" / "metrics.jsonl")
    seen = []
    for row in rows:
        seen += read_games(place / "whole" / "games" / f"step_{row['step']:06d}.jsonl")
        expected = diagnose(seen).metrics
        assert expected
        assert {name: value for name, value in row.items() if name.startswith("diagnostics/")} == expected
    assert "watch_s" in read_log(place / "whole" / "timings.jsonl")[-1]


def test_only_the_last_games_are_kept_in_sight(monkeypatch):
    monkeypatch.setattr(watching, "GAMES", 5)
    assert last_games("abc", "def") == tuple("bcdef")
    assert last_games("", "ab") == tuple("ab")


def test_a_warning_is_said_once_when_all_its_games_are_new(place, monkeypatch):
    monkeypatch.setattr(watching, "GAMES", 60)
    said = []
    watch = watch_of(place, said)
    played = list(games(60, 1, lambda text, rng: f"{text} {text}"))
    watch._iterations = 2
    for step in range(1, 7):
        watch.after(step, played)
        assert len(said) == (step >= 2)
    assert said[0].startswith("warning shortcut/length, iterations 1 to 2: a probe of length alone")


def test_false_alarms_stay_within_the_level_over_all_looks_of_a_run(place):
    watch = watch_of(place, [], iterations=220)
    assert watch._iterations == 22  # of three games
    assert watch._level == pytest.approx(0.05 / 10)


def test_a_run_of_fewer_games_than_are_looked_at_is_warned_at_its_end(place):
    said = []
    watch = watch_of(place, said, iterations=6)  # eighteen games
    for step in range(1, 7):
        watch.after(step, list(games(10 * step, 1, lambda text, rng: f"{text} {text}")))
        assert len(said) == (step == 6)
    assert said[0].startswith("warning shortcut/length, iterations 1 to 6:")


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_diagnostics_where_games_are_removed(place):
    groups = {"ckpt": {"save_steps": 1, "games_max_num": 2}}

    def start(name, iterations, resumed=False):
        ckpt = {**groups["ckpt"], "output_dir": str(place / name), "load_enable": resumed}
        tiny_runs.run(
            tiny_runs.config_of(
                place, place / "model", name, ckpt=ckpt, train={"iterations": iterations, "micro_batch_size": 100}
            )
        )
        return (place / name / "metrics.jsonl").read_bytes()

    whole = start("pruned whole", 4)
    start("in parts", 3)
    assert start("in parts", 4, resumed=True) == whole


def test_the_initial_model_votes_as_the_run_did_in_its_first_iteration(place):
    shutil.copytree(place / "whole", place / "first")
    for file in (place / "first" / "games").glob("step_*.jsonl"):
        if file.stem > "step_000002":
            file.unlink()
    (run,) = read_runs([place / "first"])
    found, trouble = revoted_lead(run, "initial", 64, lambda said: None)
    assert trouble == []
    assert found.early[:3] == (0, 0, 0)  # the same weights, the same chance, the same votes
    assert found.frozen_early.n == found.frozen_late.n == 3
