"""Metrics in TensorBoard and Weights & Biases: the names of metrics.jsonl, each iteration once, also after a kill."""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
import types

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="the policy imports it")

from tests.trainers import tiny_runs, tiny_world
from trainers.config import Config
from trainers.disk import read_log
from trainers.embedded import trackers
from trainers.embedded.display import Display
from trainers.settings import from_dict

KEY = "0123456789abcdef" * 2 + "01234567"
WANDB = {"wandb": {"project": "spies", "group": "tests", "run_name": "tiny", "org": "us", "key": KEY}}


class StoppedError(Exception):
    """Stands for the end of the process."""


class StopsInTheFifth(Display):
    def step(self, step, *_):
        if step == 5:
            raise StoppedError


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    tiny_world.model_folder(place / "model", steps=20)
    return place


@pytest.fixture
def run(place):
    yield place / "run"
    shutil.rmtree(place / "run", ignore_errors=True)


def train(place, display=Display, load_enable=False, logger=None, opponent="", **groups):
    groups |= {"ckpt": {"save_steps": 2, "load_enable": load_enable}, "eval": {"steps": 2, "opponent": opponent}}
    config = tiny_runs.config_of(place, place / "model", logger=logger or {}, **groups)
    return tiny_runs.run(config, display)


def stopped_and_gone_on(place, logger):
    with pytest.raises(StoppedError):
        train(place, StopsInTheFifth, logger=logger)
    return train(place, load_enable=True, logger=logger).folder


def numbers(row):
    return {name: value for name, value in row.items() if name != "step" and isinstance(value, int | float)}


def expected(folder):
    """What is to be told, by iteration."""
    evaluations = {row["step"]: numbers(row) for row in read_log(folder / "evaluations.jsonl")}
    metrics = {row["step"]: numbers(row) for row in read_log(folder / "metrics.jsonl")}
    return {
        step: metrics.get(step, {}) | {f"eval/{name}": value for name, value in evaluations.get(step, {}).items()}
        for step in {**evaluations, **metrics}
    }


class FakeRun:
    """A server's memory of one run: like the real one, it adds to the last step and takes none out of order."""

    def __init__(self, starting_step=0, **asked):
        self.asked, self.rows, self.finished, self.starting_step = asked, [], None, starting_step

    def log(self, metrics, step):
        assert step >= max([step_ for step_, _ in self.rows], default=self.starting_step)
        if self.rows and step == self.rows[-1][0]:
            metrics = {**self.rows.pop()[1], **metrics}
        self.rows.append((step, metrics))

    def finish(self, exit_code):
        self.finished = exit_code


class FakeWandb(types.ModuleType):
    """The package: the runs that were begun, in order."""

    def __init__(self, starting_step=0):
        super().__init__("wandb")
        self.runs, self.starting_step, self.Settings = [], starting_step, dict
        self.errors = types.SimpleNamespace(Error=ConnectionRefusedError)

    def init(self, **asked):
        self.runs.append(FakeRun(self.starting_step, **asked))
        return self.runs[-1]


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def test_tensorboard_holds_every_iteration_of_a_stopped_run_once(place, run):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = stopped_and_gone_on(place, {"tensorboard_dir": str(run / "board")})
    board = accumulators.EventAccumulator(str(run / "board"), size_guidance={"scalars": 0})
    board.Reload()
    told = {}
    for name in board.Tags()["scalars"]:
        for event in board.Scalars(name):
            assert name not in told.setdefault(event.step, {})
            told[event.step][name] = event.value
    wanted = expected(folder)
    assert told.keys() == wanted.keys() == set(range(7))
    for step, metrics in wanted.items():
        assert told[step] == pytest.approx(metrics, rel=1e-6, abs=1e-12)


def test_tensorboard_files_are_on_the_disk_after_each_iteration(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = from_dict(Config, {"logger": {"tensorboard_dir": str(tmp_path / "board")}}, "test")
    with trackers.opened(config.logger, config.without_secrets(), tmp_path, 0) as tell:
        tell(1, {"reward": 0.5})
        board = accumulators.EventAccumulator(str(tmp_path / "board"))
        board.Reload()
        assert [event.value for event in board.Scalars("reward")] == [0.5]


def test_a_board_that_can_not_be_written_is_refused_before_anything_is_played(place, run):
    (place / "in_the_way").write_text("a file", encoding="utf-8")
    with pytest.raises(OSError, match=r"in_the_way/board can't be written: Not a directory"):
        train(place, logger={"tensorboard_dir": str(place / "in_the_way" / "board")})
    assert not (run / "games" / "eval_before.jsonl").exists()


def test_wandb_is_told_what_it_is_asked_for_and_the_key_is_written_nowhere(place, run, wandb):
    folder = train(place, logger=WANDB).folder
    (only,) = wandb.runs
    assert {name: only.asked[name] for name in ("project", "entity", "group", "name", "dir")} == {
        **{"project": "spies", "entity": "us", "group": "tests", "name": "tiny"},
        "dir": str(folder),
    }
    assert only.asked["settings"]["api_key"] == KEY
    assert only.asked["config"]["train"]["iterations"] == 6
    assert dict(only.rows) == expected(folder)
    assert only.finished == 0
    assert KEY not in json.dumps(only.asked["config"])
    assert [str(file) for file in folder.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()] == []


def test_evaluations_before_and_after_training_are_told_with_the_iteration_that_they_follow(place, run, wandb):
    folder = train(place, logger=WANDB, opponent="scripted", train={"iterations": 3}).folder
    (only,) = wandb.runs
    assert [step for step, _ in only.rows] == [0, 1, 2, 3]
    told = dict(only.rows)
    for row in read_log(folder / "evaluations.jsonl"):
        assert {f"eval/{name}": value for name, value in numbers(row).items()}.items() <= told[row["step"]].items()
    assert {"eval/detection accuracy" in metrics for metrics in (told[0], told[2], told[3])} == {True}
    assert "loss" in told[3]


def test_a_stopped_run_goes_on_in_the_same_wandb_run_without_telling_anything_twice(place, run, wandb):
    folder = stopped_and_gone_on(place, WANDB)
    first, second = wandb.runs
    assert first.asked["id"] == second.asked["id"]
    assert (first.finished, second.finished) == (1, 0)
    assert [step for step, _ in first.rows + second.rows] == [0, 1, 2, 3, 4, 5, 6]
    assert dict(first.rows + second.rows) == expected(folder)


@pytest.mark.parametrize(("arrived", "told_again"), [(0, [1, 2, 3, 4, 5, 6]), (3, [4, 5, 6]), (5, [6])])
def test_a_killed_run_tells_again_what_did_not_arrive(place, run, wandb, arrived, told_again):
    train(place, logger=WANDB, train={"iterations": 4})
    record = json.loads((run / trackers.RECORD).read_text(encoding="utf-8"))
    assert record["step"] == 4
    (run / trackers.RECORD).write_text(json.dumps({**record, "step": 0}), encoding="utf-8")  # as a killed run leaves it
    wandb.starting_step = arrived + 1 if arrived else 0
    folder = train(place, load_enable=True, logger=WANDB).folder
    again = wandb.runs[-1]
    assert again.asked["id"] == record["id"]
    assert dict(again.rows) == {step: expected(folder)[step] for step in told_again}


def test_another_run_gets_another_wandb_run(place, run, wandb):
    train(place, logger=WANDB, train={"iterations": 1})
    shutil.rmtree(run)
    train(place, logger=WANDB, train={"iterations": 1})
    assert wandb.runs[0].asked["id"] != wandb.runs[1].asked["id"]


def test_what_wandb_refuses_is_said_with_the_way_out_and_the_folder_is_still_free(place, run, wandb):
    def init(**_):
        raise ConnectionRefusedError("no API key configured")

    wandb.init = init
    with pytest.raises(ValueError, match=r"no API key configured.*--logger.wandb.key .* WANDB_MODE=offline"):
        train(place, logger=WANDB)
    train(place)


@pytest.mark.parametrize(
    ("package", "logger", "message"),
    [
        ("wandb", WANDB, r"--logger.wandb.project needs wandb: pip install -e '.\[wandb\]'"),
        (
            "torch.utils.tensorboard",
            {"tensorboard_dir": "board"},
            r"--logger.tensorboard_dir needs tensorboard: pip install -e '.\[train\]'",
        ),
    ],
)
def test_a_missing_package_is_named_with_the_way_to_get_it(place, run, monkeypatch, package, logger, message):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=message):
        train(place, logger=logger)


def told_offline(file):
    """The rows of a .wandb file: LevelDB's log format (blocks of 32 KiB) holding protocol buffers."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, part, rows = file.read_bytes(), 7, b"", {}
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        _, length, kind = struct.unpack("<IHB", data[at : at + 7]) if left >= 7 else (0, 0, 0)
        if kind == 0:
            at += left
            continue
        part, at = part + data[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # whole, or the last piece
            record, part = Record.FromString(part), b""
            if record.HasField("history"):
                items = {
                    "".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item
                }
                rows[record.history.step.num] = {name: value for name, value in items.items() if name[0] != "_"}
    return rows


def test_the_real_wandb_keeps_a_stopped_run_offline_as_one_run_with_each_iteration_once(place, run, monkeypatch):
    pytest.importorskip("wandb", reason="needs the wandb extra")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    folder = stopped_and_gone_on(place, WANDB)
    files = sorted((folder / "wandb").glob("offline-run-*/*.wandb"), key=os.path.getmtime)
    record = json.loads((folder / trackers.RECORD).read_text(encoding="utf-8"))
    assert {file.name for file in files} == {f"run-{record['id']}.wandb"}
    first, second = map(told_offline, files)
    assert (list(first), list(second)) == ([0, 1, 2, 3, 4], [5, 6])
    assert first | second == expected(folder)
    assert [str(file) for file in folder.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()] == []
