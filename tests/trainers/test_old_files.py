"""Runs and games that version 0.1.0 wrote are read as it read them: ``inspect``, ``replay``, ``eval alignment``, ``rescore``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.evaluation.command import main as evaluate
from spy_env import RewardRules, Stage, number_of, observe, read_games, to_json
from spy_env.ballot import read_ballot
from spy_env.viewer.origin import origin_of
from spy_env.viewer.replay import main as replay
from spy_env.viewer.rescoring import main as rescore
from trainers.inspection.command import main as inspect
from trainers.inspection.runs import read_runs

FILES = Path(__file__).parents[1] / "files_of_0_1"
RUNS = ("embedded", "openrlhf", "verl", "trl")
ALGORITHM = ("rae", "normalise_performing", "shuffle_advantages", "alpha", "schedule", "cycle", "k_min")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A copy of the files to work in."""
    shutil.copytree(FILES, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


def settings_file(run):
    return run / ("spyrl.json" if run.name == "trl" else "config.json")


def cells(out, row):
    """A row of the table on the terminal, without its name."""
    (line,) = [line for line in out.splitlines() if line.startswith(row)]
    return re.split(r"  +", line.removeprefix(row).strip())


def test_inspect_shows_the_numbers_of_every_route(place, capsys):
    assert inspect([*RUNS, "games.jsonl"]) == 0
    out = capsys.readouterr().out
    assert cells(out, "iterations") == ["4", "2 of 3", "2 of 3", "3", "-"]
    assert cells(out, "trained stages")[:2] == ["3 detection, 1 performing", "1 detection, 1 performing"]
    assert cells(out, "Detection accuracy by voter's role: civilian") == [
        *("0.278 > 0.194", "0.083 > 0.250", "-", "0.111 > 0.333", "-")
    ]
    assert cells(out, "Detection accuracy by voter's role: referee") == ["-", "-", "0.167 > 0.167", "-", "-"]
    assert cells(out, "Role baselines: summarization/4/spy") == [
        *("-0.005 > -0.005", "0.003 > 0.0005", "-0.002 > -0.00089", "-0.030 > -0.027", "-")
    ]
    assert cells(out, "Entropy: entropy")[0] == "0.931 > 1.360"
    assert cells(out, "Held-out games: detection accuracy: all")[0] == "0.167 > 0.167"
    assert cells(out, "Held-out games: against the fixed opponent: on both sides")[0] == "0.000 > -0.017"
    assert cells(out, "chance") == ["0.250", "0.250", "0.250", "0.250", "0.200"]


def test_inspect_judges_the_games_and_writes_the_page(place, capsys):
    assert inspect([*RUNS, "games.jsonl"]) == 0
    out = capsys.readouterr().out
    warnings = re.findall(r"^(\S+):$|WARNING ([a-z/]+)", out, re.MULTILINE)
    assert [name or warning for name, warning in warnings] == [
        *("embedded", "openrlhf", "shortcut/length", "shortcut/vocabulary"),
        *("verl", "shortcut/length", "shortcut/vocabulary", "trl", "shortcut/position"),
        *("games.jsonl", "habit/position"),
    ]
    assert "shortcut/length      0.278 [0.125, 0.509]   0.250   0.39  0.259 [0.113, 0.490]" in out
    assert "0.857 [0.458, 0.977] of 7 games (chance 0.250), the detectors in 0.286 [0.082, 0.641]" in out
    assert re.findall("note: (.*)", out) == [
        "no config.json of a run in games.jsonl: settings are unknown, except for those in the games"
    ]
    page = (place / "embedded" / "inspection" / "report.html").read_text(encoding="utf-8")
    assert page.count("<figure>") > 20


def test_inspect_lets_a_frozen_detector_vote_as_the_runs_own_did(place, capsys):
    assert inspect(["embedded", "--revote", "scripted"]) == 0
    assert "ahead of the frozen one by -0.056 [-0.324, 0.213] in late games" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("embedded/games/step_000003.jsonl", {"rewards": RewardRules(unreadable=-0.5), "normalised": True, "step": 3}),
        ("openrlhf/games/step_000002.jsonl", {"rewards": RewardRules(wrong=-0.25), "baselines": {}}),
        (
            "verl/games/step_000001.jsonl",
            {"rewards": RewardRules(1, -1, -0.5, -1), "baselines": {}, "normalised": False},
        ),
        ("trl/games/step_000002.jsonl", {"rewards": RewardRules(unreadable=-1.0), "point": "step 2"}),
        ("embedded/games/eval_after.jsonl", {"rewards": RewardRules(unreadable=-0.5), "baselines": None, "step": None}),
        ("games.jsonl", {"rewards": RewardRules(), "point": "games"}),
    ],
)
def test_games_are_scored_as_their_run_scored_them(place, file, expected):
    origin = origin_of(place / file)
    assert {name: getattr(origin, name) for name in expected} == expected


def test_baselines_and_opponents_are_those_of_the_iteration(place):
    origin = origin_of(place / "embedded/games/step_000003.jsonl")
    before = read_runs([place / "embedded"])[0].rows[1]
    names = ("summarization/4/civilian", "summarization/4/spy")
    assert origin.baselines == {name: before[f"game/baseline/{name}"] for name in names}
    assert origin.baselines["summarization/4/spy"] == pytest.approx(-0.01289, abs=0.00001)
    assert origin.opponents == {"spy": "past:2"}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kept", [True, False])
def test_settings_of_the_algorithm_are_read_in_their_old_group_and_in_their_new_one(place, run, kept):
    """Rewritten as a later version writes it; a value that the old group also kept doesn't count."""
    games = place / run / "games" / "step_000002.jsonl"
    before = origin_of(games)
    file = settings_file(place / run)
    row = json.loads(file.read_text(encoding="utf-8"))
    game, algo = row["config"]["game"], row["config"].setdefault("algo", {})
    for name in ALGORITHM:
        algo[name] = game.pop(name)
    if kept:
        game |= {"rae": not algo["rae"], "normalise_performing": not algo["normalise_performing"]}
    file.write_text(json.dumps(row), encoding="utf-8")
    assert origin_of(games) == before
    algo["shuffle_advantages"] = True
    file.write_text(json.dumps(row), encoding="utf-8")
    assert origin_of(games).shuffled


def test_replay_shows_who_the_spy_was_and_what_each_seat_earned(place, capsys):
    assert replay(["embedded/games/step_000003.jsonl", "--reveal", "--game", "7/3/0"]) == 0
    out = capsys.readouterr().out
    assert "kiwi pear [[kiwi fig]] lime lime kiwi plum" in out
    assert "The spy was player_4, caught." in out
    assert re.search(r"player_4 +spy +player_2 +2 +-0\.133 +\+0\.000", out)


@pytest.mark.parametrize("run", [*RUNS, "games.jsonl"])
def test_replay_lists_every_game_and_writes_the_page(place, capsys, run):
    counts = {"embedded": 72, "openrlhf": 8, "verl": 8, "trl": 9, "games.jsonl": 8}
    assert replay([run, "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == counts[run]
    assert replay([run, "--html", str(place / "page.html")]) == 0
    assert f"{counts[run]} games in" in capsys.readouterr().out


def test_records_are_whole_and_come_back_as_they_were_written():
    games = list(read_games(FILES / "games.jsonl"))
    assert [game.seed for game in games] == ["0/0", "0/1", "1/0", "1/1", "2/0", "2/1", "3/0", "3/1"]
    assert [game.rules.voters for game in games[::2]] == ["all", "civilians", "referees", "all"]
    assert [game.rules.operator for game in games[::2]] == ["span", "sentences", "span", "none"]
    assert games[4].rules.words == 40
    for game, line in zip(games, (FILES / "games.jsonl").read_text(encoding="utf-8").splitlines(), strict=True):
        row = json.loads(line)
        written = json.loads(to_json(game))
        written["rules"] = {name: written["rules"][name] for name in row["rules"]}
        assert {name: written[name] for name in row} == row


def test_a_text_that_was_shown_cut_is_shown_cut_again():
    game = list(read_games(FILES / "games.jsonl"))[1]
    assert game.shown_characters == {game.spy: 25}
    ballot = dict(read_ballot(observe(game, Stage.DETECTION)[game.voters[0]]))
    assert ballot[number_of(game.spy)] == "Each arm had 120 people,"  # the ballot strips it
    assert game.performances()[game.spy].text == "Each arm had 120 people, median age 63."


def test_rescore_changes_what_votes_pay(place, capsys):
    assert rescore(["embedded", "--rewards", "vision_zero"]) == 0
    out = capsys.readouterr().out
    assert "24 games; means over games" in out
    assert re.search(
        r"detection +civilian +0\.201 \[0\.075, 0\.328\] +-0\.528 \[-0\.770, -0\.286\] +-0\.729 \[-0\.852, -0\.607\]",
        out,
    )
    assert rescore(["verl", "games.jsonl", "--beta", "0.2"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"detection +referee +-0\.450 \[-0\.731, -0\.169\] +-0\.450 \[-0\.731, -0\.169\]", out)
    assert re.search(r"15 games are paid otherwise.*\n +0/1 in games.jsonl.*player_2 \(spy\) performing -0\.375", out)


def test_an_alignment_study_reads_the_saved_games(place, capsys):
    files = ["games.jsonl", *(f"trl/games/step_{step:06d}.jsonl" for step in (1, 2, 3))]
    assert evaluate(["alignment", "--games", *files, "--output", "study"]) == 0
    out = capsys.readouterr().out
    assert "50.0 [12.5, 87.5], n 8" in out  # TRL's games; in one of nine no vote was readable
    assert re.search(r"Spearman of votes and rank, pooled within games +\| +-0\.100 \[-0\.833, 1\.000\], n 2", out)
    assert (place / "study" / "report.html").is_file()
