"""Running a sweep: what is kept, goes on or is tried again, and the table that is there at any time."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("tyro", reason="the command reads its flags with it")

from tests.trainers import tiny_runs, tiny_world
from trainers.config import Ckpt, Config
from trainers.embedded import command
from trainers.embedded.loop import Result
from trainers.embedded.sweep import read_sweep
from trainers.embedded.sweep_runs import plan_lines, run_sweep, state_of
from trainers.embedded.sweep_table import write_table
from trainers.metrics import Estimate, average


class FakeTrainer:
    """Leaves what a training leaves: its config, its metrics, and a comparison; fails where it is told to."""

    def __init__(self, told=None, fails=(), measured=True):
        self.told, self.fails, self.measured = (
            told or (lambda config, step: {"kl": step + config.train.seed}),
            fails,
            measured,
        )
        self.trained: list[str] = []

    def __call__(self, config: Config) -> Result:
        folder = Path(config.ckpt.output_dir)
        name = f"{folder.parent.name}/{config.train.seed}"
        self.trained.append(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"config": asdict(config)}), encoding="utf-8")
        if name in self.fails:
            raise RuntimeError("the cable\nwas cut")
        lines = [json.dumps(self.told(config, step)) for step in range(1, 4)]
        (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        value = config.train.seed / 10
        after = Estimate(value + 0.5, value + 0.4, value + 0.6, 8)
        compared = {"detection accuracy": (Estimate(value, 0, 1, 8), after)} if self.measured else {}
        return Result(folder, {}, compared, None, {})


@pytest.fixture
def swept(tmp_path):
    """Run a sweep of two settings with a fake trainer; gives the sweep, how many failed, what was said and the tables."""

    def run(trainer, text="seeds = [0, 1, 2]\nmetrics = ['kl']\n[settings.a]\n[settings.b]\ngame.rae = false\n"):
        (tmp_path / "sweep.toml").write_text(text, encoding="utf-8")
        sweep = read_sweep(str(tmp_path / "sweep.toml"), replace(Config(), ckpt=Ckpt(str(tmp_path / "out"))))
        said, tables = [], []
        failed = run_sweep(sweep, trainer, said.append, lambda sweep: tables.append(write_table(sweep)))
        return sweep, failed, said, tables

    return run


def cells(table):
    """By setting, the row's cells by heading."""
    head, _, *rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line[:1] == "|"
    ]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def test_every_run_is_announced_with_its_number_and_the_table_is_written_after_each(swept):
    trainer = FakeTrainer()
    sweep, failed, said, tables = swept(trainer)
    assert failed == 0
    assert trainer.trained == ["a/0", "b/0", "a/1", "b/1", "a/2", "b/2"]
    assert said == [f"run {i + 1} of 6 ({'ab'[i % 2]}, seed {i // 2})" for i in range(6)]
    finished = [[row["finished"] for row in cells(table).values()] for table in tables]
    assert finished[:3] == [["0 of 3", "0 of 3"], ["1 of 3", "0 of 3"], ["1 of 3", "1 of 3"]]
    assert finished[-1] == ["3 of 3", "3 of 3"]
    assert (sweep.folder / "sweep.md").read_text(encoding="utf-8") == tables[-1]


def test_intervals_are_students_over_the_seeds(swept):
    sweep, _, _, tables = swept(FakeTrainer())
    # seeds 0, 1, 2 measure 0.5, 0.6, 0.7: mean 0.6, standard deviation 0.1, half-width 4.303 x 0.1 / sqrt(3) = 0.248
    assert cells(tables[-1])["a"] == {
        "finished": "3 of 3",
        "detection accuracy, before": "0.100 [-0.148, 0.348]",
        "detection accuracy, after": "0.600 [0.352, 0.848]",
        "kl": "3 [0.516, 5.48]",  # means 2, 3, 4 of three iterations
    }
    row = json.loads((sweep.folder / "sweep.json").read_text(encoding="utf-8"))["settings"]["b"]
    assert row["over"] == {"game": {"rae": False}}
    assert row["states"] == {"0": "finished", "1": "finished", "2": "finished"}
    told = row["estimates"]["detection accuracy, after"]
    assert told["interval_over"] == "seeds"
    assert told["estimate"] == pytest.approx(average([0.5, 0.6, 0.7])._asdict())
    assert told["by_seed"]["2"] == pytest.approx({"value": 0.7, "low": 0.6, "high": 0.8, "n": 8})


def test_of_one_seed_the_runs_own_interval_is_shown_and_marked(swept):
    sweep, _, _, tables = swept(FakeTrainer(), "seeds = [1]\nmetrics = ['kl']\nlast = 2\n[settings.a]\n")
    assert cells(tables[-1])["a"] == {
        "finished": "1 of 1",
        "detection accuracy, before": "0.100 [0.000, 1.000] *",
        "detection accuracy, after": "0.600 [0.500, 0.700] *",
        "kl": "3.5 [-2.85, 9.85] *",  # 3 and 4: over the last two iterations
    }
    assert "(marked *) the interval is that\nrun's own" in tables[-1]
    told = json.loads((sweep.folder / "sweep.json").read_text(encoding="utf-8"))["settings"]["a"]["estimates"]["kl"]
    assert told["interval_over"] == "the run"


def test_an_interval_without_bounds_is_null_in_json(swept):
    sweep, _, _, tables = swept(FakeTrainer(), "seeds = [1]\nmetrics = ['kl']\nlast = 1\n[settings.a]\n")
    assert cells(tables[-1])["a"]["kl"] == "4 [-inf, inf] *"
    text = (sweep.folder / "sweep.json").read_text(encoding="utf-8")
    estimate = json.loads(text, parse_constant=pytest.fail)["settings"]["a"]["estimates"]["kl"]["estimate"]
    assert estimate == {"value": 4.0, "low": None, "high": None, "n": 1}


def test_without_held_out_games_the_table_has_training_metrics_alone(swept):
    _, _, _, tables = swept(FakeTrainer(measured=False))
    assert list(cells(tables[-1])["a"]) == ["finished", "kl"]


def test_a_metric_of_one_stage_is_averaged_over_the_iterations_that_tell_it(swept):
    trainer = FakeTrainer(lambda config, step: {"kl": 1.0} | ({"own": step} if step != 2 else {}))
    _, _, _, tables = swept(trainer, "seeds = [0, 1]\nmetrics = ['own', 'nobody']\nlast = 2\n[settings.a]\n")
    assert cells(tables[-1])["a"]["own"] == "2 [2, 2]"
    assert "nobody" not in cells(tables[-1])["a"]
    assert "- no finished run tells 'nobody'" in tables[-1]


def test_runs_that_time_cut_short_are_named(swept):
    _, _, _, tables = swept(
        FakeTrainer(), "seeds = [0, 1]\nmetrics = ['kl']\n[settings.a]\n[settings.b]\ntrain.iterations = 3\n"
    )
    assert [line for line in tables[-1].splitlines() if "ended after" in line] == [
        f"- a, seed {seed}, ended after 3 of 100 iterations" for seed in (0, 1)
    ]


def test_chosen_measures_are_the_columns(swept):
    _, _, _, tables = swept(FakeTrainer(), "seeds = [0]\nmetrics = []\nmeasures = []\n[settings.a]\n")
    assert list(cells(tables[-1])["a"]) == ["finished"]
    _, _, _, tables = swept(FakeTrainer(), "seeds = [0]\nmetrics = []\nmeasures = ['luck']\n[settings.a]\n")
    assert "- no finished run tells 'luck'" in tables[-1]


def test_a_failing_run_is_recorded_the_others_go_on_and_it_is_tried_again(swept):
    broken = FakeTrainer(fails={"b/0"})
    sweep, failed, said, tables = swept(broken)
    assert failed == 1
    assert len(broken.trained) == 6
    assert "run 2 of 6 (b, seed 0) failed: RuntimeError: the cable was cut" in said
    assert cells(tables[-1])["b"]["finished"] == "2 of 3 (1 failed)"
    assert "- b, seed 0, failed: RuntimeError: the cable was cut" in tables[-1]
    failure = (sweep.folder / "b" / "seed_0" / "failure.txt").read_text(encoding="utf-8")
    assert "Traceback" in failure
    assert "in __call__" in failure
    mended = FakeTrainer()
    _, failed, said, tables = swept(mended)
    assert (failed, mended.trained) == (0, ["b/0"])
    assert said.count("run 1 of 6 (a, seed 0): finished before") == 1
    assert cells(tables[-1])["b"]["finished"] == "3 of 3"
    assert "failed" not in tables[-1]


def test_a_sweep_that_is_stopped_says_which_run_was_begun(swept):
    def stop(config):
        result = FakeTrainer()(config)
        if config.train.seed == 1:
            raise KeyboardInterrupt
        return result

    with pytest.raises(KeyboardInterrupt):
        swept(stop)
    sweep, failed, *_ = swept(FakeTrainer(fails={"a/1", "b/1", "a/2", "b/2"}))
    assert failed == 4
    assert [state_of(run) for run in sweep.runs] == ["finished"] * 2 + ["failed"] * 4
    with pytest.raises(KeyboardInterrupt):
        swept(stop)  # while a failed run is tried again
    plan = plan_lines(sweep)
    assert [line.split("): ")[1].partition(", /")[0] for line in plan[3:]] == [
        *["finished, kept"] * 2,
        "begun, goes on",
        *["failed, tried again"] * 3,
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, documents and the flags of a short training."""
    place = tmp_path_factory.mktemp("sweeps")
    tiny_world.model_folder(place / "model", steps=20)
    return place


SWEEP = "seeds = [0, 1]\n[settings.base]\n[settings.no_rae]\ngame.rae = false\n"
SHORT = {"train": {"iterations": 2, "micro_batch_size": 100}, "game": {"schedule": "performing"}}


def sweep(place, output, text=SWEEP, **groups):
    groups = {name: {**SHORT.get(name, {}), **groups.get(name, {})} for name in {**SHORT, **groups}}
    config = place / "config.json"
    config.write_text(json.dumps(tiny_runs.settings(place, place / "model", output, **groups)), encoding="utf-8")
    (place / "sweep.toml").write_text(text, encoding="utf-8")
    return command.main(["--config", str(config), "--sweep", str(place / "sweep.toml")])


def made(folder):
    return {str(run.relative_to(folder)): tiny_runs.made(run) for run in sorted(folder.glob("*/seed_*"))}


def test_the_command_trains_a_sweep_whose_runs_are_those_of_the_command_alone(place, capsys):
    assert sweep(place, "swept") == 0
    said = capsys.readouterr().out
    for line in ("run 1 of 4 (base, seed 0)", "run 4 of 4 (no_rae, seed 1)", "iteration 2 (performing)"):
        assert line in said
    table = cells((place / "swept" / "sweep.md").read_text(encoding="utf-8"))
    assert [row["finished"] for row in table.values()] == ["2 of 2", "2 of 2"]
    assert {"readable votes, before", "performing reward, spy, after", "kl"} <= set(table["base"])
    alone = {**SHORT, "game": {**SHORT["game"], "rae": False}, "train": {**SHORT["train"], "seed": 1}}
    tiny_runs.run(tiny_runs.config_of(place, place / "model", "alone", **alone))
    assert tiny_runs.made(place / "swept" / "no_rae" / "seed_1") == tiny_runs.made(place / "alone")
    before = made(place / "swept")
    assert sweep(place, "swept") == 0
    assert "run 4 of 4 (no_rae, seed 1): finished before" in capsys.readouterr().out
    assert made(place / "swept") == before


def test_a_sweep_that_was_interrupted_goes_on_to_the_same_bytes(place, monkeypatch):
    once = SWEEP.replace("[0, 1]", "[0]")
    assert sweep(place, "whole", once) == 0
    steps = []

    class Interrupting(command.Display):
        def step(self, *args):
            super().step(*args)
            steps.append(args)
            if len(steps) == 4:  # the last iteration of the second run, before its checkpoint
                raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(command, "Display", Interrupting)
        with pytest.raises(KeyboardInterrupt):
            sweep(place, "stopped", once)
    runs = place / "stopped"
    assert sorted(str(file.relative_to(runs)) for file in runs.rglob("outcome.json")) == ["base/seed_0/outcome.json"]
    assert (runs / "no_rae" / "seed_0" / "checkpoints" / "step_1").exists()
    assert sweep(place, "stopped", once) == 0
    assert made(runs) == made(place / "whole")
    tables = [(folder / "sweep.md").read_text(encoding="utf-8") for folder in (runs, place / "whole")]
    assert tables[0] == tables[1]


def test_numbers_that_run_away_in_one_setting_leave_the_others_and_an_exit_code(place, capsys):
    text = "seeds = [0]\n[settings.away]\nactor.adam.lr = 1e30\n[settings.base]\n"
    assert sweep(place, "away", text, eval={"games": 0}, train={"iterations": 6}) == 1
    assert "1 of 2 runs failed; the same command tries them again" in capsys.readouterr().err
    table = (place / "away" / "sweep.md").read_text(encoding="utf-8")
    assert cells(table)["away"]["finished"] == "0 of 1 (1 failed)"
    assert cells(table)["base"]["finished"] == "1 of 1"
    assert "- away, seed 0, failed: NotFiniteError: the " in table
