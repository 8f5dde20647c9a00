"""A run that was stopped, by itself or in the middle of anything, goes on to the bytes of one that never was."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from tests.trainers import tiny_runs, tiny_world
from trainers.embedded import checkpoints
from trainers.embedded.checkpoints import RunFolder
from trainers.embedded.display import Display
from trainers.embedded.policy import policy_of

ADAPTATIONS = {"full": {}, "lora": {"ds": {"lora": {"rank": 2}}}}
ROOT = Path(__file__).parents[3]
TRAIN = (
    "import json, sys; from trainers.config import Config; from trainers.settings import from_dict; from tests.trainers import tiny_runs; \
tiny_runs.run(from_dict(Config, json.loads(sys.argv[1]), 'test'))"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, documents, and an uninterrupted run of six iterations for each adaptation."""
    place = tmp_path_factory.mktemp("runs")
    tiny_world.model_folder(place / "model", steps=20)
    for name, groups in ADAPTATIONS.items():
        tiny_runs.run(tiny_runs.config_of(place, place / "model", name, **groups))
    return place


@pytest.fixture
def stopped(place):
    """Where a stopped run goes."""
    yield place / "stopped"
    shutil.rmtree(place / "stopped", ignore_errors=True)


def start(place, display=Display, **groups):
    tiny_runs.run(tiny_runs.config_of(place, place / "model", "stopped", **groups), display)


def go_on(place, **groups):
    groups["ckpt"] = {**groups.get("ckpt", {}), "load_enable": True}
    start(place, **groups)


def assert_same(stopped: Path, uninterrupted: Path):
    found, expected = tiny_runs.made(stopped), tiny_runs.made(uninterrupted)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []
    cards = [(run / "final" / "README.md").read_text(encoding="utf-8") for run in (stopped, uninterrupted)]
    assert cards[0] == cards[1]


class KilledError(Exception):
    """Stands for the end of the process."""


def killing(at: int) -> type[Display]:
    """A display that ends the run when it is told something for the ``at``-th time: three times an iteration."""

    class Killing(Display):
        told = 0

        def count(self):
            self.told += 1
            if self.told == at:
                raise KilledError

        def doing(self, what):
            self.count()

        def step(self, *_):
            self.count()

    return Killing


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_three_iterations_and_three_more_equal_six(place, stopped, adaptation):
    groups = ADAPTATIONS[adaptation]
    start(place, **groups, train={"iterations": 3})
    go_on(place, **groups)
    assert_same(stopped, place / adaptation)


def test_a_finished_run_that_is_to_go_on_stays_as_it_is(place, stopped):
    start(place)
    go_on(place)
    assert_same(stopped, place / "full")


def test_going_on_where_there_is_no_run_yet_begins_one(place, stopped):
    go_on(place)
    assert_same(stopped, place / "full")


# 1: the held-out games before training; 2, 3, 4: playing, updating and reporting the first iteration; and so on.
@pytest.mark.parametrize(
    "at", [pytest.param(at, marks=[] if at in (1, 4, 13) else pytest.mark.slow) for at in range(1, 21)]
)
def test_a_run_killed_between_checkpoints_repeats_what_came_after_the_last(place, stopped, at):
    with pytest.raises(KilledError):
        start(place, killing(at), ckpt={"save_steps": 2})
    go_on(place, ckpt={"save_steps": 2})
    assert_same(stopped, place / "full")


def test_lines_games_and_checkpoints_that_were_being_written_are_cut(place, stopped):
    with pytest.raises(KilledError):
        start(place, killing(16), ckpt={"save_steps": 2})  # while reporting the fifth iteration
    assert (stopped / "games" / "step_000005.jsonl").exists()
    for name, lines in {"metrics.jsonl": 5, "timings.jsonl": 6}.items():
        assert (stopped / name).read_text(encoding="utf-8").count("\n") == lines
        with (stopped / name).open("a", encoding="utf-8") as file:
            file.write('{"step": 6, "sta')
    (stopped / "games" / "step_000006.jsonl").write_text('{"version": 1, "see', encoding="utf-8")
    (stopped / "checkpoints" / ".step_6.partial").mkdir()
    (stopped / "checkpoints" / ".step_6.partial" / "model.safetensors").write_bytes(b"half")
    go_on(place, ckpt={"save_steps": 2})
    assert_same(stopped, place / "full")
    assert {path.name for path in (stopped / "checkpoints").iterdir()} == {"step_2", "step_4", "step_6"}


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_a_checkpoint_that_was_being_written_is_not_taken_for_one(place, stopped, adaptation, monkeypatch):
    whole = torch.save

    def save(state, file):
        if ".step_4." in str(file):
            file.write(b"half")
            raise KilledError
        whole(state, file)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints.torch, "save", save)
        with pytest.raises(KilledError):
            start(place, **ADAPTATIONS[adaptation])
    assert {path.name for path in (stopped / "checkpoints").glob("step_*")} == {"step_1", "step_2", "step_3"}
    go_on(place, **ADAPTATIONS[adaptation])
    assert_same(stopped, place / adaptation)


def in_a_process(settings) -> subprocess.Popen:
    paths = str(ROOT)
    return subprocess.Popen(
        [sys.executable, "-c", TRAIN, json.dumps(settings)], env={**os.environ, "PYTHONPATH": paths}, cwd=ROOT
    )


@pytest.mark.slow
def test_a_process_that_is_killed_twice_ends_with_the_bytes_of_one_that_never_was(place, stopped):
    def settings(output: str, **ckpt):
        return tiny_runs.settings(place, place / "model", output, train={"iterations": 40}, ckpt=ckpt)

    assert in_a_process(settings("whole", save_steps=3)).wait(timeout=300) == 0
    for lines in (7, 20):
        process = in_a_process(settings("stopped", save_steps=3, load_enable=True))
        metrics = stopped / "metrics.jsonl"
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and process.poll() is None:
            if metrics.exists() and metrics.read_bytes().count(b"\n") >= lines:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    assert in_a_process(settings("stopped", save_steps=3, load_enable=True)).wait(timeout=300) == 0
    assert_same(stopped, place / "whole")


def test_a_changed_learning_rate_is_used_when_going_on(place, stopped):
    start(place, train={"iterations": 1})
    config = tiny_runs.config_of(
        place, place / "model", "stopped", actor={"adam": {"lr": 5e-4}}, ckpt={"load_enable": True}
    )
    policy = policy_of(config, str(place / "model"))
    RunFolder(config.ckpt).resume(config.without_secrets(), policy)
    assert [group["lr"] for group in policy.optimizer.param_groups] == [5e-4]


def test_games_from_before_training_are_never_played_by_the_trained_model(place, stopped):
    start(place, train={"iterations": 1})
    file = stopped / "games" / "eval_before.jsonl"
    file.write_text(file.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"eval_before.jsonl holds 1 of the 2 games .* begin a new run"):
        go_on(place)


def test_evaluations_on_the_way_are_kept_and_those_after_the_checkpoint_are_cut(place, stopped):
    start(place, train={"iterations": 3}, eval={"steps": 1})
    rows = [json.loads(line) for line in (stopped / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert all(0 <= row["readable votes"] <= 1 for row in rows)
    shutil.rmtree(stopped / "checkpoints" / "step_3")
    config = tiny_runs.config_of(place, place / "model", "stopped", ckpt={"load_enable": True})
    RunFolder(config.ckpt).resume(config.without_secrets(), policy_of(config, str(place / "model")))
    assert len((stopped / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    assert not (stopped / "games" / "eval_000003.jsonl").exists()
    assert (stopped / "games" / "eval_before.jsonl").exists()
