"""The same games under other rules: figures worked by hand, files and run folders, and what can't be done."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from spy_env import RawReply, Rules, deal, write_games
from spy_env.viewer.rescoring import main
from tests.simulated_games import english, games

ROOT = Path(__file__).parents[2]


def played(votes, seed="1"):
    """Four players, the first is the spy; votes by number."""
    game = replace(deal(english(1), "summarization", Rules(players=4), seed), spy="player_1")
    game = game.with_replies(dict.fromkeys(game.players, RawReply("Summary: The mill.")))
    said = zip(game.voters, votes.split(), strict=True)
    return game.with_replies({seat: RawReply(rf"\boxed{{{vote}}}") for seat, vote in said})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run" / "games" / "step_000001.jsonl"
    write_games(path, [played("2 1 1 N/A", "a"), played("2 2 2 ?", "b")])
    return path


def with_config(file, **game):
    """The run's config beside a file of games."""
    prices = dict.fromkeys(("right", "wrong", "abstain", "unreadable", "beta", "lam"))
    config = {"config": {"game": {"rewards": "spyrl", **prices, **game}}}
    (file.parent.parent / "config.json").write_text(json.dumps(config), encoding="utf-8")


def rescore(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def line_of(text, *begins):
    return next(line for line in text.splitlines() if line.split()[: len(begins)] == list(begins))


def test_means_of_both_rules_and_their_difference_stand_side_by_side(capsys, file):
    out = rescore(capsys, file, "--wrong", "-1", "--abstain", "-0.5", "--unreadable", "-0.25")
    # civilians of a: 1 1 0 under their own rules, 1 1 -0.5 now; of b: 0 0 0, and -1 -1 -0.25
    assert "0.333 [" in line_of(out, "detection", "civilian")
    values = [part for part in line_of(out, "detection", "civilian").split() if "[" not in part and "]" not in part]
    assert values == ["detection", "civilian", "0.333", "-0.125", "-0.458"]
    spies = [part for part in line_of(out, "detection", "spy").split() if "[" not in part and "]" not in part]
    assert spies[2:] == ["0.000", "-1.000", "-1.000"]
    assert "performing  spy" in out
    assert "referee" not in out


def test_performing_rewards_follow_beta_and_lam(capsys, file, tmp_path):
    output = tmp_path / "changes" / "new.jsonl"
    rescore(capsys, file, "--beta", "0.3", "--lam", "0", "--output", output)
    first = json.loads(output.read_text(encoding="utf-8").splitlines()[0])
    assert (first["game"], first["file"]) == ("a", str(file))
    # votes 2, 1, 0, 0: the spy is 2 - 1/3 above the civilians' mean
    spy = first["performing"]["player_1"]
    assert spy["role"] == "spy"
    assert (spy["own"], spy["new"]) == pytest.approx((-0.1 * 5 / 3, -0.3 * 5 / 3))
    assert first["performing"]["player_2"]["new"] == pytest.approx(0.3 * 5 / 9)
    assert first["detection"]["player_2"] == {"role": "civilian", "own": 1.0, "new": 1.0}
    assert first["moved"] == pytest.approx(0.2 * 5 / 3 + 1.6 / 9 + 2 * 0.7 / 9)


def test_the_own_rules_are_those_of_the_run_and_prices_are_laid_over_them(capsys, file):
    with_config(file, rewards="vision_zero", abstain=0.25)
    out = rescore(capsys, file.parent.parent, "--unreadable", "0")
    civilians = [part for part in line_of(out, "detection", "civilian").split() if "[" not in part and "]" not in part]
    # a: 1 1 0.25 under both; b: -1 -1 -1, and -1 -1 0
    assert civilians[2:] == ["-0.125", "0.042", "0.167"]


def test_of_a_run_only_the_games_that_it_trained_on_are_scored(capsys, file):
    write_games(file.with_name("eval_before.jsonl"), [played("1 1 1 1", "c")] * 3)
    run = file.parent.parent
    assert rescore(capsys, run, "--lam", "1") == rescore(capsys, file, "--lam", "1")
    file.rename(file.with_name("mine.jsonl"))
    assert rescore(capsys, run, "--lam", "1") != rescore(capsys, file.with_name("mine.jsonl"), "--lam", "1")


def test_a_preset_takes_the_place_of_the_runs_rules(capsys, file):
    with_config(file, rewards="vision_zero", abstain=0.25)
    out = rescore(capsys, file, "--preset", "spyrl")
    values = [part for part in line_of(out, "detection", "civilian").split() if "[" not in part and "]" not in part]
    assert values[3] == "0.333"


def test_the_games_that_change_most_are_named_with_who_gains(capsys, file):
    out = rescore(capsys, file, "--wrong", "-1", "--show", "1")
    assert "2 games are paid otherwise" in out
    assert out.count(str(file)) == 1
    assert "player_2 (civilian) detection -1.000" in out
    assert "performing" not in out.splitlines()[-1]


def test_rules_that_pay_the_same_change_nothing(capsys, file):
    assert "no game is paid otherwise" in rescore(capsys, file, "--preset", "spyrl")


def test_games_that_are_not_over_are_left_out(capsys, file):
    write_games(file, [deal(english(2), "summarization", Rules(), "c")])
    assert rescore(capsys, file, "--lam", "1").startswith("2 games;")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no other rules are given; name some"),
        (["--lam", "nan"], "--lam is nan; give a number"),
        (["--lam", "1", "--show", "-1"], "--show is -1; give a count"),
        (["--lam", "1", "--output", "{file}"], "choose another --output"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_way_out(file, arguments, message):
    with pytest.raises(ValueError, match=message):
        main([str(file), *(argument.format(file=file) for argument in arguments)])


def test_files_without_a_finished_game_are_refused_and_a_config_of_something_else_is_no_runs(capsys, tmp_path, file):
    write_games(tmp_path / "new.jsonl", [deal(english(2), "summarization", Rules(), "c")])
    with pytest.raises(ValueError, match="none of the games in 1 file"):
        main([str(tmp_path / "new.jsonl"), "--lam", "1"])
    (file.parent.parent / "config.json").write_text("{}", encoding="utf-8")
    assert "no game is paid otherwise" in rescore(capsys, file, "--preset", "spyrl")


def test_rescoring_needs_neither_a_model_nor_numpy(file):
    program = (
        "import sys; from spy_env.viewer.rescoring import main; main(sys.argv[1:]); "
        "print(sorted({'torch', 'numpy', 'transformers', 'trainers'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(file), "--lam", "0.2"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_hundred_games_are_scored_at_once(capsys, tmp_path):
    write_games(tmp_path / "many.jsonl", games(100))
    assert rescore(capsys, tmp_path / "many.jsonl", "--lam", "0.3").startswith("100 games;")
