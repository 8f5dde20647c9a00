"""A frozen detector on saved ballots: what it is asked, what is kept, and when its being left behind is told."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from spy_env import Stage, observe, parse_vote, to_json, write_games
from spy_env.players import word_overlap_vote
from tests.simulated_games import games
from trainers.engines import Failed, Reply
from trainers.inspection import revoting
from trainers.inspection.command import main
from trainers.inspection.revoting import CACHE, frozen_detector, revoted_lead
from trainers.inspection.runs import read_runs


class Asked:
    """Votes for player 1, and remembers what it was asked; ``failing`` seats get no reply."""

    def __init__(self, failing=()):
        self.requests, self.failing = [], failing

    def generate(self, requests):
        self.requests += requests
        return [
            Failed("no route") if any(seat in one.seed for seat in self.failing) else Reply(r"\boxed{1}")
            for one in requests
        ]


def make_run(folder, played, **config):
    """A run of two iterations."""
    middle = len(played) // 2
    for step, own in enumerate((played[:middle], played[middle:]), start=1):
        write_games(folder / "games" / f"step_{step:06d}.jsonl", own)
    (folder / "metrics.jsonl").write_text('{"step": 2, "stage": "detection"}\n', encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return read_runs([folder])[0]


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", list(games(8, 1)), config={"game": {"players": 4}})


@pytest.fixture
def engine(monkeypatch):
    """Stands behind every detector."""
    asked = Asked()
    monkeypatch.setattr(revoting, "engine_for", lambda player, **options: asked)
    return asked


def quiet(said):
    """Nobody listens."""


def test_the_scripted_detector_votes_as_on_the_games_own_ballots(run):
    found, trouble = revoted_lead(run, "scripted", 64, quiet)
    expected = []
    for _, game in run.games_by_step:
        prompts = observe(game, Stage.DETECTION)
        votes = [parse_vote(word_overlap_vote(prompts[seat]), 4) for seat in game.trained_voters]
        expected.append(votes.count(game.spy) / 3)
    assert found.frozen_early.value == pytest.approx(sum(expected[:4]) / 4)
    assert found.frozen_late.value == pytest.approx(sum(expected[4:]) / 4)
    assert trouble == []


def test_the_trained_voters_alone_are_asked_and_as_the_runs_own_were(tmp_path, engine):
    rollout = {"max_new_tokens": 9, "temperature": 0.7, "detection": {"prefill": "\\boxed{", "stop": "}"}}
    run = make_run(tmp_path / "run", list(games(8, 1)), config={"rollout": rollout})
    revoted_lead(run, "random", 64, quiet)
    assert len(engine.requests) == 8 * 3
    first = run.games_by_step[0][1]
    own = [one for one in engine.requests if one.seed.startswith(f"{first.seed}/")]
    assert [one.seed for one in own] == [f"{first.seed}/detection/{seat}" for seat in first.trained_voters]
    assert {one.prompt for one in own} == {observe(first, Stage.DETECTION)[first.trained_voters[0]]}
    sampling = own[0].sampling
    assert (sampling.max_new_tokens, sampling.temperature, sampling.prefill, sampling.stop) == (9, 0.7, "\\boxed{", "}")


def test_a_second_look_asks_nothing_and_says_the_same(run, engine):
    first = revoted_lead(run, "random", 64, quiet)
    asked = len(engine.requests)
    assert revoted_lead(run, "random", 64, quiet) == first
    assert len(engine.requests) == asked == 24


def test_another_detector_or_other_sampling_is_asked_anew(run, engine):
    revoted_lead(run, "random", 64, quiet)
    revoted_lead(run, "endpoint:http://localhost:1/v1#m", 64, quiet)
    assert len(engine.requests) == 48
    hotter = replace(run, config={"config": {"rollout": {"temperature": 2.0}}})
    revoted_lead(hotter, "random", 64, quiet)
    assert len(engine.requests) == 72


def test_of_a_cut_answer_only_that_vote_is_asked_again(run, engine):
    revoted_lead(run, "random", 64, quiet)
    cache = run.folder / "inspection" / CACHE
    whole = cache.read_bytes()
    cache.write_bytes(whole[:-9])
    revoted_lead(run, "random", 64, quiet)
    assert len(engine.requests) == 25
    revoted_lead(run, "random", 64, quiet)
    assert len(engine.requests) == 25


def test_a_game_that_could_not_be_voted_on_is_left_out_and_told_and_asked_again(run, engine):
    engine.failing = (f"{run.games_by_step[0][1].seed}/",)
    found, trouble = revoted_lead(run, "random", 64, quiet)
    assert trouble == ["1 game(s) could not be voted on again: no route"]
    assert found.early.n + found.late.n == 7
    engine.failing = ()
    assert revoted_lead(run, "random", 64, quiet)[1] == []
    assert len(engine.requests) == 24 + 3


def test_too_few_games_give_no_comparison(tmp_path, engine):
    run = make_run(tmp_path / "run", list(games(3, 1)))
    found, trouble = revoted_lead(run, "random", 64, quiet)
    assert found is None
    assert trouble == ["1 early and 2 late games were voted on again; a comparison needs 2 of each"]


def test_late_games_do_not_take_the_place_of_early_ones_that_failed(run, engine):
    early = [f"{game.seed}/" for _, game in run.games_by_step[:4]]
    engine.failing = early[:2]
    found, _ = revoted_lead(run, "random", 64, quiet)
    assert (found.early.n, found.late.n) == (2, 4)
    (run.folder / "inspection" / CACHE).unlink()
    engine.failing = early[:3]
    found, trouble = revoted_lead(run, "random", 64, quiet)
    assert found is None
    assert trouble[1] == "1 early and 4 late games were voted on again; a comparison needs 2 of each"


def test_the_first_and_the_last_games_are_voted_on(run, engine):
    revoted_lead(run, "random", 4, quiet)
    seeds = {one.seed.rpartition("/detection")[0] for one in engine.requests}
    assert seeds == {game.seed for _, game in (*run.games_by_step[:2], *run.games_by_step[-2:])}


def test_a_start_whose_games_are_removed_is_told(run, engine):
    assert revoted_lead(run, "random", 64, quiet)[1] == []
    (run.folder / "games" / "step_000001.jsonl").unlink()
    _, trouble = revoted_lead(read_runs([run.folder])[0], "random", 64, quiet)
    assert trouble == ["the first games that are left are of iteration 2: earlier ones can't be compared"]


def test_a_run_whose_detectors_leave_the_frozen_one_behind_is_warned_of(capsys, tmp_path, engine):
    early, late = list(games(20, "early", right=0.0)), list(games(20, "late", right=0.95))
    run = make_run(tmp_path / "run", [*early, *late], config={"game": {"players": 4}})
    assert main([str(run.folder), "--revote", "random"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"WARNING collusion: the run's detectors are ahead of the frozen one by 0\.\d+", out)
    page = (run.folder / "inspection" / "report.html").read_text(encoding="utf-8")
    assert "<b>collusion</b> in run" in page
    steady = make_run(tmp_path / "steady", [*list(games(20, "a", right=0.95)), *late], config={})
    assert main([str(steady.folder), "--revote", "random"]) == 0
    assert "collusion" not in capsys.readouterr().out


def test_the_initial_model_is_the_folder_that_the_run_began_with(run, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    told = {"config": {"actor": {"model_name_or_path": "a/b"}}, "model_folder": str(folder)}
    here = frozen_detector("initial", replace(run, config=told))
    assert here.identity.startswith("weights ")
    moved = folder.rename(tmp_path / "moved")
    named = frozen_detector("initial", replace(run, config={**told, "model": str(moved)}))
    assert named.identity == here.identity  # by its weights, wherever it lies
    gone = frozen_detector("initial", replace(run, config={**told, "model_folder": "/gone"}))
    assert gone.identity.startswith("model:a/b")


def test_other_weights_in_the_same_folder_are_another_detector(run, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"one")
    first = frozen_detector(f"model:{folder}", run).identity
    (folder / "model.safetensors").write_bytes(b"two")
    assert frozen_detector(f"model:{folder}", run).identity != first


@pytest.mark.parametrize(
    ("player", "message"),
    [
        ("human", "no player 'human'"),
        ("past", "no player 'past'"),
        ("initial", "the model before training isn't named in .*; name it: --revote model:FOLDER_OR_ID"),
    ],
)
def test_who_cannot_vote_again_is_refused_with_the_way_out(run, player, message):
    with pytest.raises(ValueError, match=message):
        revoted_lead(run, player, 64, quiet)


def test_games_keep_their_own_records(run, engine):
    before = [to_json(game) for _, game in run.games_by_step]
    revoted_lead(run, "random", 64, quiet)
    assert [to_json(game) for _, game in read_runs([run.folder])[0].games_by_step] == before
