"""Whole runs with opponents: resumed to the byte, curves against a fixed opponent, checkpoints kept for the pool."""

from __future__ import annotations

import json
import shutil
from math import inf

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")
pytest.importorskip("tyro", reason="the command reads its flags with it")

from spy_env import RewardRules, Stage, observe, read_games
from spy_env.players import scripted_player
from tests.trainers import tiny_runs, tiny_world
from trainers.embedded import command
from trainers.embedded.display import Display
from trainers.embedded.evaluation import measure_against
from trainers.embedded.lineup import drawn_at
from trainers.engines import Request, Sampling
from trainers.engines.local import load_engine

RULES = RewardRules(unreadable=-1.0)
ADAPTATIONS = {"full": {}, "lora": {"ds": {"lora": {"rank": 2}}}}
# every second iteration is a checkpoint, one is to be kept, and the pool needs two
GROUPS = {
    "opponents": {"spy": "past", "pool": 2},
    "eval": {"opponent": "initial", "steps": 2},
    "ckpt": {"save_steps": 2, "max_num": 1},
    "train": {"iterations": 7},
    "actor": {"adam": {"lr": 0.01}},
}


class KilledError(Exception):
    """Stands for the end of the process."""


def killing(at: int) -> type[Display]:
    """A display that ends the run when it is told something for the ``at``-th time: three times an iteration."""

    class Killing(Display):
        told = 0

        def doing(self, what):
            self.told += 1
            if self.told == at:
                raise KilledError

        def step(self, *_):
            self.doing("")

    return Killing


def config_of(place, output, adaptation="full", **groups):
    names = {*GROUPS, *groups, *ADAPTATIONS[adaptation]}
    merged = {n: {**GROUPS.get(n, {}), **ADAPTATIONS[adaptation].get(n, {}), **groups.get(n, {})} for n in names}
    return tiny_runs.config_of(place, place / "model", output, **merged)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    tiny_world.model_folder(place / "model", steps=20)
    for name in ADAPTATIONS:
        tiny_runs.run(config_of(place, name, name))
    return place


@pytest.fixture
def stopped(place):
    yield place / "stopped"
    shutil.rmtree(place / "stopped", ignore_errors=True)


def rows(folder, name="metrics.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def made(folder):
    return {**tiny_runs.made(folder), "curves": (folder / "evaluations.jsonl").read_bytes()}


def assert_same(stopped, uninterrupted):
    found, expected = made(stopped), made(uninterrupted)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


def test_each_iteration_meets_the_checkpoint_that_is_drawn_for_it_and_says_so(place):
    met = [row["opponent/spy"] for row in rows(place / "full")]
    assert met == [f"past:{drawn_at(step, 42, 2, 2)}" for step in range(1, 8)]
    assert len(set(met)) > 2
    assert {row["num_samples"] for row in rows(place / "full")} == {9}  # of three games of four


def test_a_past_spy_plays_as_its_checkpoint_does(place):
    folder = place / "full"
    name = rows(folder)[6]["opponent/spy"].replace("past:", "step_")
    saved = load_engine(str(folder / "checkpoints" / name))
    for game in read_games(folder / "games" / "step_000007.jsonl"):
        prompt = observe(game, Stage.PERFORMING)[game.spy]
        asked = Request(prompt, f"{game.seed}/{Stage.PERFORMING}/{game.spy}", Sampling(4))
        assert saved.generate([asked])[0].text == game.replies[Stage.PERFORMING][game.spy].text


def test_the_pools_checkpoints_are_kept_however_few_are_to_be_kept(place):
    assert {path.name for path in (place / "full" / "checkpoints").iterdir()} == {"step_4", "step_6", "step_7"}


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
# while playing before training; after one iteration; reporting the fifth; playing the seventh; playing after training
@pytest.mark.parametrize(
    "at", [pytest.param(at, marks=[] if at == 16 else pytest.mark.slow) for at in (1, 4, 9, 12, 16, 20, 22, 23)]
)
def test_a_run_that_is_killed_goes_on_to_the_same_opponents_games_curves_and_weights(place, stopped, adaptation, at):
    with pytest.raises(KilledError):
        tiny_runs.run(config_of(place, "stopped", adaptation), killing(at))
    tiny_runs.run(config_of(place, "stopped", adaptation, ckpt={"load_enable": True}))
    assert_same(stopped, place / adaptation)
    tiny_runs.run(config_of(place, "stopped", adaptation, ckpt={"load_enable": True}))
    assert_same(stopped, place / adaptation)


CHANGES = {
    "--opponents.spy": {"opponents": {"spy": "scripted"}},
    "--opponents.pool": {"opponents": {"pool": 3}},
    "--eval.opponent": {"eval": {"opponent": "scripted"}},
    "--ckpt.save_steps": {"ckpt": {"save_steps": 1}},
}


@pytest.mark.parametrize("flag", CHANGES)
def test_going_on_against_others_is_refused_by_name(place, flag):
    before = made(place / "full")
    groups = {"ckpt": {"load_enable": True}, **CHANGES[flag]}
    groups["ckpt"] = {"load_enable": True, **groups["ckpt"]}
    with pytest.raises(ValueError, match=rf"step_7 was made with {flag} .*resume with the same"):
        tiny_runs.run(config_of(place, "full", **groups))
    assert made(place / "full") == before


def test_an_opponent_that_was_not_there_is_named_as_nobody(place, stopped):
    tiny_runs.run(config_of(place, "stopped", opponents={"spy": ""}, train={"iterations": 2}))
    with pytest.raises(ValueError, match=r"was made with --opponents.spy '', and now it is past"):
        tiny_runs.run(config_of(place, "stopped", ckpt={"load_enable": True}))


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_the_curve_has_a_point_before_on_the_way_and_after_and_begins_as_self_play(place, adaptation):
    curve = rows(place / adaptation, "evaluations.jsonl")
    assert [row["step"] for row in curve] == [0, 2, 4, 6, 7]
    assert {row["opponent"] for row in curve} == {"initial"}
    assert curve[0]["learner on both sides: performing reward"] == 0
    assert curve[0]["intervals"]["learner on both sides: performing reward"] == [0, 0]
    for row in curve:
        for name, (low, high) in row["intervals"].items():
            assert (-inf if low is None else low) <= row[name] <= (inf if high is None else high)


def test_against_the_initial_model_the_first_games_on_either_side_are_those_of_self_play(place):
    games = place / "full" / "games"
    assert (games / "eval_spy_before.jsonl").read_bytes() == (games / "eval_before.jsonl").read_bytes()
    assert (games / "eval_civilians_before.jsonl").read_bytes() == (games / "eval_before.jsonl").read_bytes()
    assert (games / "eval_spy_after.jsonl").read_bytes() != (games / "eval_after.jsonl").read_bytes()


def test_every_point_is_measured_on_the_same_deals_and_follows_from_the_saved_games(place):
    games = place / "full" / "games"
    deals = []
    points = {0: "before", 2: "000002", 4: "000004", 6: "000006", 7: "after"}
    for row in rows(place / "full", "evaluations.jsonl"):
        point = points[row["step"]]
        as_spy, as_civilians = (list(read_games(games / f"eval_{kind}_{point}.jsonl")) for kind in ("spy", "civilians"))
        deals += [[(game.seed, game.document, game.spy, game.hidden) for game in one] for one in (as_spy, as_civilians)]
        for name, estimate in measure_against(as_spy, as_civilians, RULES).items():
            assert row[name] == estimate.value
            assert row["intervals"][name] == pytest.approx([estimate.low, estimate.high])
    assert all(deal == deals[0] for deal in deals)


def test_a_scripted_opponents_seats_are_played_by_script_and_the_learners_are_not(place):
    groups = {"eval": {"opponent": "scripted", "steps": None}, "opponents": {"spy": ""}, "train": {"iterations": 1}}
    folder = tiny_runs.run(config_of(place, "scripted", **groups)).folder
    assert [row["step"] for row in rows(folder, "evaluations.jsonl")] == [0, 1]
    script = scripted_player()
    for kind, by_script in {"spy": "civilian", "civilians": "spy"}.items():
        for point in ("before", "after"):
            for game in read_games(folder / "games" / f"eval_{kind}_{point}.jsonl"):
                for stage in (Stage.PERFORMING, Stage.DETECTION):
                    prompts = observe(game, stage)
                    follows = {seat: reply.text == script(prompts[seat]) for seat, reply in game.replies[stage].items()}
                    scripted = {seat for seat in follows if game.role(seat) == by_script}
                    assert all(follows[seat] for seat in scripted)
                    if stage is Stage.PERFORMING:
                        assert not any(follows[seat] for seat in follows if seat not in scripted)


def test_curves_opponents_and_their_name_are_in_tensorboard_card_and_closing_table(place, capsys):
    event = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = tiny_runs.settings(
        place,
        place / "model",
        "told",
        **{**GROUPS, "train": {"iterations": 2}, "logger": {"tensorboard_dir": str(place / "board")}},
    )
    flags = [word for group, row in settings.items() for word in flags_of(row, f"{group}.")]
    assert command.main(flags) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "against initial" in said
    board = event.EventAccumulator(str(place / "board")).Reload()
    points = [scalar.step for scalar in board.Scalars("eval/learner spy: not caught")]
    assert points == [0, 2]
    card = (place / "told" / "final" / "README.md").read_text(encoding="utf-8")
    assert "Play against opponents (spy: `past`)" in card
    assert "Lines that begin with `learner` are against `initial`." in card
    assert "| learner on both sides: performing reward | 0.000 [0.000, 0.000] |" in card


def flags_of(rows, prefix):
    for name, value in rows.items():
        if isinstance(value, dict):
            yield from flags_of(value, f"{prefix}{name}.")
        else:
            yield from (f"--{prefix}{name}", *map(str, value if isinstance(value, list) else [value]))


def test_a_dry_run_says_who_plays_against_the_learner(capsys):
    assert command.main(["--dry-run", "--opponents.spy", "initial"]) == 0
    assert "spy played by initial" in " ".join(capsys.readouterr().out.split())


def test_a_run_without_opponents_says_nothing_of_them(place):
    folder = tiny_runs.run(
        config_of(place, "plain", opponents={"spy": ""}, eval={"opponent": "", "steps": 1}, train={"iterations": 1})
    ).folder
    assert not [name for row in rows(folder) for name in row if name.startswith(("opponent", "game/learner"))]
    curve = rows(folder, "evaluations.jsonl")
    assert [row["step"] for row in curve] == [0, 1]
    assert not [name for row in curve for name in row if name.startswith(("opponent", "learner", "intervals"))]
    assert {path.name for path in (folder / "games").glob("eval_*")} == {
        *("eval_before.jsonl", "eval_000001.jsonl", "eval_after.jsonl")
    }
    assert "Self-play without labels" in (folder / "final" / "README.md").read_text(encoding="utf-8")
