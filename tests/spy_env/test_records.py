"""Games on disk: an exact round trip, and what becomes of lines that are cut, newer or no game."""

import json
import warnings
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spy_env.documents import Document
from spy_env.game import VOTERS, RawReply, Rules, Stage, deal
from spy_env.masking import OPERATORS
from spy_env.records import VERSION, from_json, read_games, to_json, write_games
from spy_env.rewards import RewardRules

ANY_TEXT = st.text(st.one_of(st.characters(), st.sampled_from("\n\r\u2028\x85\x00{}\\\"'|好👍🏽")), max_size=30)
UTF8_TEXT = st.text(max_size=20)


@st.composite
def games(draw):
    """Games of all rules, from just dealt to over."""
    rules = Rules(
        players=draw(st.integers(3, 6)),
        voters=draw(st.sampled_from(VOTERS)),
        referees=draw(st.integers(1, 4)),
        operator=draw(st.sampled_from(sorted(OPERATORS))),
        mask_fraction=draw(st.none() | st.floats(0.01, 0.99)),
        document_words=draw(st.none() | st.integers(5, 30)),
        words=draw(st.none() | st.integers(5, 30)),
    )
    document = Document(draw(UTF8_TEXT), draw(UTF8_TEXT) + " one two three four five " + draw(UTF8_TEXT))
    trained = draw(st.sampled_from([None, Stage.PERFORMING, Stage.DETECTION]))
    task = draw(st.sampled_from(["summarization", "creative_writing", "math_reasoning"]))
    game = deal(document, task, rules, draw(UTF8_TEXT), trained)
    game = replace(game, detection_words=draw(st.none() | st.integers(5, 30)))
    replies = st.builds(RawReply, ANY_TEXT, UTF8_TEXT, st.booleans())
    for _ in range(draw(st.integers(0, len(game.players) + len(game.voters)))):
        game = game.with_replies({draw(st.sampled_from(game.waiting)): draw(replies)})
    return game


@given(games())
def test_a_game_is_read_back_exactly(game):
    line = to_json(game)
    again = from_json(line)
    assert again == game
    assert to_json(again) == line
    assert "\n" not in line
    assert [list(replies) for replies in again.replies.values()] == [list(replies) for replies in game.replies.values()]
    assert (again.stage, again.waiting, again.votes()) == (game.stage, game.waiting, game.votes())
    if game.stage is Stage.OVER:
        assert again.rewards(RewardRules()) == game.rewards(RewardRules())


def dealt(seed):
    return deal(Document("d", "one two three four five six"), "summarization", Rules(players=3), seed)


GAMES = [dealt(str(i)).with_replies({"player_1": RawReply(f"Summary: déjà vu {i}\u2028\r\n好")}) for i in range(3)]


def test_games_are_appended_to_a_file_one_a_line_and_read_back_in_order(tmp_path):
    path = tmp_path / "new" / "folders" / "games.jsonl"
    write_games(path, GAMES[:1])
    write_games(path, iter(GAMES[1:]))
    assert list(read_games(path)) == GAMES
    assert [json.loads(line)["seed"] for line in path.read_bytes().decode().strip().split("\n")] == ["0", "1", "2"]


def test_text_that_utf8_cannot_hold_survives_a_file(tmp_path):
    game = replace(GAMES[0], document=Document("lone \udcff", "one two three four five"))
    write_games(tmp_path / "games.jsonl", [game, GAMES[1]])
    assert list(read_games(tmp_path / "games.jsonl")) == [game, GAMES[1]]


def test_empty_lines_are_passed_over(tmp_path):
    path = tmp_path / "games.jsonl"
    path.write_text("\n" + to_json(GAMES[0]) + "\n\n  \n" + to_json(GAMES[1]), encoding="utf-8")
    with warnings.catch_warnings(action="error"):
        assert list(read_games(path)) == GAMES[:2]


@pytest.mark.parametrize("cut", [1, 100, -20, -2])
def test_a_file_cut_within_its_last_line_loses_that_game_alone(tmp_path, cut):
    path = tmp_path / "games.jsonl"
    whole = [to_json(game).encode() + b"\n" for game in GAMES]
    path.write_bytes(b"".join(whole[:2]) + whole[2][:cut])
    with pytest.warns(
        UserWarning, match=r"games\.jsonl:3: the line is cut or broken; this game is lost, the others are read"
    ) as said:
        assert list(read_games(path)) == GAMES[:2]
    assert len(said) == 1


def test_a_line_cut_within_a_character_loses_that_game_alone(tmp_path):
    path = tmp_path / "games.jsonl"
    line = to_json(GAMES[0]).encode()
    path.write_bytes(line[: line.index("好".encode()) + 1])
    with pytest.warns(UserWarning, match="cut or broken"):
        assert list(read_games(path)) == []


def test_games_written_after_a_cut_line_are_not_lost_with_it(tmp_path):
    path = tmp_path / "games.jsonl"
    path.write_bytes(to_json(GAMES[0]).encode()[:50])
    write_games(path, GAMES[1:])
    with pytest.warns(UserWarning, match=r"games\.jsonl:1: "):
        assert list(read_games(path)) == GAMES[1:]


def changed(**values):
    return json.dumps({**json.loads(to_json(GAMES[0])), **values})


RULES = json.loads(to_json(GAMES[0]))["rules"]
NO_GAMES = [
    ("[]", "not a game: a record is a JSON object with a version"),
    ("3", "not a game"),
    ("null", "not a game"),
    ('"version"', "not a game"),
    ("{}", "not a game"),
    ('{"loss": 0.5, "step": 3}', "not a game"),
    (changed(version=VERSION + 1), rf"a game of record version {VERSION + 1}; this package reads version {VERSION}"),
    (changed(version="new"), "a game of record version 'new'"),
    (changed(version=None), "a game of record version None"),
    (changed(rules={**RULES, "teams": 2, "chat": True}), r"unknown rules \['chat', 'teams'\].*Update spy-env"),
    (changed(rules={**RULES, "players": 2}), "players is 2"),
    (changed(rules={**RULES, "operator": "blur"}), "no masking operator named 'blur'"),
    (changed(rules={**RULES, "players": "five"}), "players is five; it must be at least 3"),
    (changed(rules=None), "not a whole game record"),
    (changed(spy="player_99"), r"the spy is 'player_99', and the players are \['player_1'"),
    (changed(document={"id": "d"}), "not a whole game record"),
    (changed(hidden=[[1]]), "not a whole game record"),
    (changed(hidden=[3]), "not a whole game record"),
    (changed(trained="resting"), "'resting' is not a valid Stage"),
    (changed(replies={}), "not a whole game record: KeyError"),
    (changed(replies={"performing": {"player_1": {"words": "x"}}, "detection": {}}), "not a whole game record"),
    (changed(replies={"performing": {"player_1": "x"}, "detection": {}}), "not a whole game record"),
    (json.dumps({"version": VERSION}), "not a whole game record"),
    (json.dumps({k: v for k, v in json.loads(changed()).items() if k != "spy"}), "not a whole game record.*'spy'"),
]


@pytest.mark.parametrize(("line", "message"), NO_GAMES)
def test_whole_json_that_is_no_game_is_an_error_that_names_file_and_line(tmp_path, line, message):
    with pytest.raises(ValueError, match=message):
        from_json(line)
    path = tmp_path / "games.jsonl"
    path.write_text(to_json(GAMES[0]) + "\n" + line + "\n", encoding="utf-8")
    stream = read_games(path)
    assert next(stream) == GAMES[0]
    with pytest.raises(ValueError, match=rf"games\.jsonl:2: .*{message}"):
        next(stream)
