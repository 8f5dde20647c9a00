"""Saved games on a terminal: nothing is given away too early, and nothing that a model wrote controls the terminal."""

import io
import json
import sys
from dataclasses import fields, replace

import pytest

from spy_env import Document, RawReply, RewardRules, Rules, deal, player_seats, to_json, write_games
from spy_env.viewer import replay
from spy_env.viewer.replay import game_text, outcome_text
from tests.spy_env.doors import ECHOES, SEATS, VOTERS, dealt, play_batch


def played(voters="all", seed="7", spy=None):
    game = dealt(voters, seed)
    return play_batch([replace(game, spy=spy or game.spy)], ECHOES)[0]


@pytest.fixture
def saved(tmp_path):
    """Three games in one file: over, in the detection stage, and not played."""
    path = tmp_path / "games.jsonl"
    half = dealt("all", "half").with_replies({seat: RawReply(f"Summary: by {seat}") for seat in player_seats(4)})
    write_games(path, [played(), half, dealt("all", "fresh")])
    return path


def shown(capsys, *arguments):
    assert replay.main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("voters", VOTERS)
def test_before_the_reveal_every_choice_of_spy_span_and_votes_looks_the_same(voters):
    texts = set()
    for seed in ("1", "2", "3"):
        for spy in player_seats(4):
            game = replace(dealt(voters, seed), seed="s", spy=spy)
            game = game.with_replies(
                {seat: RawReply("<think>I am the spy</think>Summary: so it is") for seat in game.players}
            )
            texts.add(game_text(game.with_replies({seat: RawReply(f"\\boxed{{{seed}}}") for seat in game.voters})))
    assert len(texts) == 1
    assert "I am the spy" not in texts.pop()


def test_the_reveal_tells_role_votes_rewards_and_hidden_text():
    game = played()
    text, revealed = game_text(game), game_text(game, reveal=True)
    for secret in (f"The spy was {game.spy}", "[[", "]]", "civilian", "\\boxed{", "votes for", "performing  detection"):
        assert secret not in text
        assert secret in revealed
    (span,) = game.hidden
    assert f"[[{game.document.text[span.start : span.end]}]]" in revealed.replace("\n", " ")
    for seat in game.players:
        assert f"{seat} ({game.role(seat)}) said: {game.replies['detection'][seat].text}" in revealed


def test_the_outcome_table_holds_what_each_seat_earned():
    game = played("referees", spy="player_2")
    rules = RewardRules(right=3.0)
    rows = {row.split()[0]: row.split()[1:] for row in outcome_text(game, rules).splitlines()[2:]}
    earned, votes, received = game.rewards(rules), game.votes(), game.tally().received
    assert set(rows) == {*game.players, *game.voters}
    for seat, (role, vote, votes_received, performing, detection) in rows.items():
        assert role == game.role(seat)
        assert vote == votes.get(seat, "-")
        assert (votes_received == "-") == (seat not in received)
        if seat in received:
            assert float(votes_received) == pytest.approx(received[seat], abs=1e-4)
            assert performing == f"{earned.performing[seat]:+.3f}".replace("-0.000", "+0.000")
        else:
            assert detection == f"{earned.detection[seat]:+.3f}"


def test_the_outcome_table_has_no_minus_zero_from_rounding():
    game = replace(deal(dealt("all").document, "summarization", Rules(3, "referees", 5), "1"), spy="player_1")
    game = game.with_replies({seat: RawReply("x") for seat in game.players})
    votes = dict(zip(game.voters, (1, 1, 1, 2, 2), strict=True))
    game = game.with_replies({seat: RawReply(f"\\boxed{{{vote}}}") for seat, vote in votes.items()})
    assert -1e-12 < game.rewards(RewardRules()).performing["player_2"] < 0
    assert "-0.000" not in outcome_text(game, RewardRules())


CONTROLS = "\x1b[2J\x1b]0;owned\x07\x9b31m\x00\x08\r\u202egnorw\u2066\x7f"
HARMFUL = [c for c in CONTROLS if not c.isprintable()]


@pytest.mark.parametrize("arguments", [[], ["--reveal"], ["--list"]])
def test_control_characters_in_games_are_never_printed(tmp_path, capsys, arguments):
    text = f"One two{CONTROLS} three four.\nFive six seven{CONTROLS} eight."
    game = deal(Document(f"id{CONTROLS}\n", text), "summarization", Rules(players=3), f"seed{CONTROLS}")
    for reply in (f"Summary: {CONTROLS}a\n{CONTROLS}b\x85c\u2028d", f"so{CONTROLS} \\boxed{{1}}{CONTROLS}"):
        game = game.with_replies({seat: RawReply(reply) for seat in game.players})
    write_games(tmp_path / "games.jsonl", [game])
    text = shown(capsys, tmp_path / "games.jsonl", *arguments)
    assert not [c for c in text if c in HARMFUL]
    assert "owned" in text  # shown as text


def test_lists_every_game_on_one_line(saved, capsys):
    lines = shown(capsys, saved, "--list").splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    assert [line.split()[4] for line in lines] == ["over", "detection", "performing"]
    assert "spy" not in "".join(lines)


@pytest.mark.parametrize(
    ("name", "seed"), [("2", "half"), ("half", "half"), ("fresh", "fresh"), ("1", "7"), ("7", "7")]
)
def test_shows_one_game_by_number_or_seed(saved, capsys, name, seed):
    text = shown(capsys, saved, "--game", name)
    assert text.count("=== Game") == 1
    assert f"=== Game {seed}: summarization, document d\n" in text


def test_games_in_any_stage_are_shown(saved, capsys):
    text = shown(capsys, saved, "--reveal")
    assert text.count("=== Game") == 3
    assert "(not played yet)" in text
    assert "| by player_2" in text
    assert text.count("The spy was") == 1


def test_reward_rules_can_be_chosen(saved, capsys):
    default, vision_zero = (shown(capsys, saved, "--reveal", "--rewards", name) for name in ("spyrl", "vision_zero"))
    assert "-1.000" not in default
    assert "-1.000" in vision_zero


def test_a_runs_folder_holds_games_beside_other_files(tmp_path, capsys):
    run = tmp_path / "run"
    write_games(run / "games" / "step_000010.jsonl", [dealt("all", "ten")])
    write_games(run / "games" / "step_000002.jsonl", [dealt("all", "two")])
    (run / "metrics.jsonl").write_text('{"iteration": 1}\n')
    (run / "timings.jsonl").write_text('{"iteration": 1}\n')
    assert [line.split()[1] for line in shown(capsys, run, "--list").splitlines()] == ["two", "ten"]
    assert [line.split()[1] for line in shown(capsys, run / "games", "--list").splitlines()] == ["two", "ten"]


class Keyboard(io.StringIO):
    """A terminal's input."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("keys", "revealed"), [("\n\n", 1), ("", 0)], ids=["Enter", "Ctrl-D"])
def test_at_a_terminal_the_reveal_waits_for_enter(saved, capsys, monkeypatch, keys, revealed):
    monkeypatch.setattr(sys, "stdin", Keyboard(keys))
    text = shown(capsys, saved, "--game", "1")
    assert text.count("Press Enter to see") == 1
    before, _, after = text.partition("Press Enter to see")
    assert "The spy was" not in before
    assert after.count("The spy was") == revealed


def test_missing_files_and_empty_folders_are_errors_that_say_what_to_give(tmp_path):
    for path in (tmp_path, tmp_path / "nothing.jsonl"):
        with pytest.raises(ValueError, match=r"no games at .*give a \.jsonl file"):
            replay.main([str(path)])
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ValueError, match="no games in these files"):
        replay.main([str(tmp_path / "empty.jsonl")])


def test_an_unknown_game_is_an_error_that_says_how_to_list_them(saved):
    with pytest.raises(ValueError, match=r"no game '9' among the 3 .*--list"):
        replay.main([str(saved), "--game", "9"])


def test_a_line_that_was_cut_loses_one_game_and_the_rest_is_shown(saved, capsys):
    lines = saved.read_bytes().splitlines()
    saved.write_bytes(b"\n".join([lines[0][:200], b"\xff\xfe", lines[1]]))
    with pytest.warns(UserWarning, match=r"games\.jsonl:[12]: the line is cut or broken"):
        text = shown(capsys, saved, "--list")
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("row", [{}, {"version": 99}, {"version": 1}, [], {"version": 1, "rules": {"players": 1}}])
def test_lines_that_are_no_games_are_errors_that_name_file_and_line(saved, row):
    with saved.open("a") as file:
        file.write(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=r"games\.jsonl:4: "):
        replay.main([str(saved), "--list"])


def test_a_game_of_an_unknown_task_is_an_error_that_names_it(tmp_path):
    row = json.loads(to_json(played()))
    (tmp_path / "games.jsonl").write_text(json.dumps({**row, "task": "poem"}))
    with pytest.raises(ValueError, match="no task named 'poem'"):
        replay.main([str(tmp_path / "games.jsonl")])


def test_performances_of_all_players_are_shown_side_by_side():
    game = played()
    text = game_text(game)
    for number, seat in enumerate(game.players, start=1):
        said = "\n| ".join(game.performances()[seat].text.splitlines())
        assert f"Player {number}:\n| {said}" in text
    assert not any(seat in text for seat in SEATS)


def test_a_runs_games_are_scored_by_its_own_rules_unless_others_are_chosen(tmp_path, capsys):
    game = dealt("all").with_replies({seat: RawReply("said") for seat in player_seats(4)})
    game = game.with_replies({seat: RawReply(r"\boxed{N/A}") for seat in game.voters})
    write_games(tmp_path / "games" / "step_000001.jsonl", [game])
    prices = {field.name: None for field in fields(RewardRules)}
    config = {"config": {"game": {"rewards": "spyrl", **prices, "abstain": -0.25}}}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for choice, paid in (([], "-0.250"), (["--rewards", "vision_zero"], "-0.500"), (["--rewards", "spyrl"], "+0.000")):
        replay.main([str(tmp_path), "--reveal", *choice])
        assert f"abstain            0      +0.000     {paid}" in capsys.readouterr().out
