"""The game record: its rules, the deal, the stages, and what follows from the replies."""

import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from spy_env.ballot import ABSTAIN, UNREADABLE
from spy_env.documents import Document
from spy_env.game import RawReply, Rules, Stage, deal
from spy_env.observations import observe
from spy_env.rewards import PRESETS, RewardRules
from spy_env.seats import player_seats, referee_seats

ROOT = Path(__file__).parents[2]
DOCUMENT = Document("d", "The mill at Orrin burned on 3 May. Nobody was hurt, and 40 sacks of rye were lost.")


def dealt(seed="1", task="summarization", spy=None, **rules):
    game = deal(DOCUMENT, task, Rules(**rules), seed)
    return game if spy is None else replace(game, spy=spy)


def performed(game):
    return game.with_replies({seat: RawReply(f"Summary: told by {i}.") for i, seat in enumerate(game.players)})


def voted(game, *said):
    """The game over, each voter having said one of these in a box."""
    boxes = [RawReply(f"\\boxed{{{vote}}}") for vote in said]
    return performed(game).with_replies(dict(zip(game.voters, boxes, strict=True)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"players": 2}, "players is 2; it must be at least 3"),
        ({"players": -1}, "players is -1"),
        ({"voters": "everyone"}, r"voters is 'everyone'; choose one of \['all', 'civilians', 'referees'\]"),
        ({"referees": 0}, "referees is 0; it must be at least 1"),
        ({"operator": "blur"}, "no masking operator named 'blur'; choose one of"),
        ({"mask_fraction": 0.0}, "mask_fraction is 0.0; it must be above 0 and below 1"),
        ({"mask_fraction": 1.0}, "mask_fraction is 1.0"),
        ({"mask_fraction": -0.2}, "mask_fraction is -0.2"),
        ({"mask_fraction": 20}, "mask_fraction is 20"),
        ({"mask_fraction": float("nan")}, "mask_fraction is nan"),
        ({"document_words": 4}, "document_words is 4; it must be at least 5"),
        ({"document_words": 0}, "document_words is 0"),
        ({"words": 4}, "words is 4; it must be at least 5"),
    ],
)
def test_rules_that_no_game_can_be_played_with_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Rules(**wrong)


def test_the_default_rules_are_the_papers():
    assert (Rules().players, Rules().voters, Rules().operator) == (5, "all", "span")


def test_a_deal_fills_in_the_tasks_defaults_and_keeps_what_is_given():
    assert dealt(task="math_reasoning").rules == Rules(mask_fraction=0.4, document_words=1000, words=300)
    given = {"mask_fraction": 0.3, "document_words": 6, "words": 9}
    game = dealt(**given)
    assert game.rules == Rules(**given)
    assert game.document == Document("d", "The mill at Orrin burned on")
    assert game.hidden[0].end <= len(game.document.text)


def test_a_document_too_short_to_play_is_refused_by_name():
    for text in ("", "one two three four", "今天下雨"):
        with pytest.raises(ValueError, match="document 'tiny' is too short to play: at least 5 words are needed"):
            deal(Document("tiny", text), "summarization", Rules(), "1")


def test_a_game_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        dealt().spy = "player_1"
    with pytest.raises(FrozenInstanceError):
        Rules().players = 4


DEALS = """
from random import random
from spy_env import Document, RawReply, Rules, Stage, deal, observe, to_json
random()  # whatever the global generator does
for seed in range(20):
    for voters in ("all", "civilians", "referees"):
        for operator in ("span", "spans", "sentences"):
            text = "One two three. Four five six. Seven eight nine ten. " * 5
            game = deal(Document("d", text), "summarization", Rules(voters=voters, operator=operator), str(seed))
            game = game.with_replies({seat: RawReply("Summary: x") for seat in game.waiting})
            print(to_json(game), observe(game, Stage.DETECTION))
"""


def test_a_deal_is_the_same_in_every_process():
    outputs = set()
    for hash_seed in ("0", "1", "random"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run([sys.executable, "-c", DEALS], capture_output=True, check=True, env=env, cwd=ROOT)
        outputs.add(run.stdout)
    assert len(outputs) == 1
    assert outputs.pop().count(b'"version"') == 180


def test_another_seed_deals_another_game():
    assert dealt("1") == dealt("1")
    assert len({(game.spy, game.hidden) for game in map(dealt, map(str, range(50)))}) > 20


@pytest.mark.parametrize(
    ("voters", "expected", "trained"),
    [
        ("all", player_seats(4), ("player_1", "player_2", "player_4")),
        ("civilians", ("player_1", "player_2", "player_4"), ("player_1", "player_2", "player_4")),
        ("referees", referee_seats(3), referee_seats(3)),
    ],
)
def test_who_votes_follows_from_the_rules_and_the_spys_vote_is_never_trained(voters, expected, trained):
    game = dealt(spy="player_3", players=4, voters=voters, referees=3)
    assert (game.voters, game.trained_voters) == (expected, trained)
    assert tuple(observe(performed(game), Stage.DETECTION)) == expected
    assert tuple(observe(game, Stage.PERFORMING)) == player_seats(4)
    roles = {seat: game.role(seat) for seat in (*game.players, *game.voters)}
    assert roles == {
        **dict.fromkeys(player_seats(4), "civilian"),
        "player_3": "spy",
        **(dict.fromkeys(referee_seats(3), "referee") if voters == "referees" else {}),
    }


@pytest.mark.parametrize("voters", ["all", "civilians", "referees"])
def test_a_game_goes_from_performing_to_detection_to_over(voters):
    game = dealt(players=3, voters=voters, referees=2)
    for stage, seats in ((Stage.PERFORMING, game.players), (Stage.DETECTION, game.voters)):
        waiting = list(seats)
        while waiting:
            assert (game.stage, game.waiting) == (stage, tuple(waiting))
            seat = waiting.pop()  # replies may come in any order
            game = game.with_replies({seat: RawReply(seat)})
        assert tuple(game.replies[stage]) == seats  # and are kept in the order of seats
    assert (game.stage, game.waiting) == (Stage.OVER, ())
    assert [str(stage) for stage in Stage] == ["performing", "detection", "over"]


@pytest.mark.parametrize(
    ("game", "seat", "message"),
    [
        (
            dealt(),
            "player_6",
            r"game 1: 'player_6' has nothing to reply in stage performing; the game waits for \['player_1'",
        ),
        (dealt(voters="referees"), "referee_1", "'referee_1' has nothing to reply in stage performing"),
        (dealt().with_replies({"player_1": RawReply("")}), "player_1", r"the game waits for \['player_2'"),
        (performed(dealt(voters="referees")), "player_1", "'player_1' has nothing to reply in stage detection"),
        (performed(dealt(voters="civilians", spy="player_2")), "player_2", "stage detection"),
        (voted(dealt(), *"12345"), "player_1", r"stage over; the game waits for \[\]"),
    ],
)
def test_a_reply_of_a_seat_that_is_not_waited_for_is_refused(game, seat, message):
    with pytest.raises(ValueError, match=message):
        game.with_replies({seat: RawReply("Summary: late")})


def test_replies_leave_the_game_before_them_as_it_was():
    before = dealt()
    after = before.with_replies({"player_2": RawReply("Summary: a")})
    assert before == dealt()
    assert before.replies[Stage.PERFORMING] == {}
    assert after.replies[Stage.PERFORMING] == {"player_2": RawReply("Summary: a")}


def test_a_lone_surrogate_in_a_reply_becomes_a_question_mark():
    game = dealt().with_replies({"player_1": RawReply("Summary: a \ud83d b")})
    assert game.replies[Stage.PERFORMING]["player_1"].text == "Summary: a ? b"


def test_a_prefix_is_part_of_a_vote():
    game = performed(dealt()).with_replies({"player_1": RawReply("3}", prefix="\\boxed{")})
    assert game.votes() == {"player_1": "player_3"}


def test_votes_are_read_and_tallied():
    game = voted(dealt(spy="player_3"), "3", "Player 3", "1", "N/A", "all of them")
    assert list(game.votes().values()) == ["player_3", "player_3", "player_1", ABSTAIN, UNREADABLE]
    assert game.tally().received == {"player_1": 1, "player_2": 0, "player_3": 2, "player_4": 0, "player_5": 0}
    assert (game.tally().abstained, game.tally().unreadable) == (1, 1)


@pytest.mark.parametrize(
    ("votes", "caught"),
    [("33333", True), ("33112", False), ("33124", True), ("11111", False), ("3xxxx", True), ("xxxxx", False)],
)
def test_the_spy_is_caught_when_it_alone_has_the_most_votes(votes, caught):
    assert voted(dealt(spy="player_3"), *votes).caught == caught


@pytest.mark.parametrize(("votes", "readable"), [("xxxxx", False), ("3xxxx", True), (["N/A", *"xxxx"], True)])
def test_a_game_with_one_vote_that_can_be_read_is_readable(votes, readable):
    assert voted(dealt(), *votes).readable == readable


def test_rewards_wait_for_the_last_vote_and_can_be_counted_under_any_rules():
    with pytest.raises(ValueError, match="game 1 is in stage detection; rewards need all votes"):
        performed(dealt()).rewards(RewardRules())
    game = voted(dealt(spy="player_1"), "1", "1", "1", "1", "x")
    assert list(game.rewards(RewardRules()).detection.values()) == [1, 1, 1, 1, 0]
    assert list(game.rewards(PRESETS["vision_zero"]).detection.values()) == [1, 1, 1, 1, -1]
    assert game.rewards(RewardRules()).performing == pytest.approx(
        {"player_1": -0.4, **dict.fromkeys(game.players[1:], 0.1)}
    )


def test_referees_votes_weigh_players_over_seats_whether_or_not_they_vote():
    assert (Rules().vote_weight, Rules(voters="civilians").vote_weight) == (1, 1)
    game = voted(dealt(spy="player_1", voters="referees", referees=8), "1", "1", *"xxxxxx")
    assert game.rules.vote_weight == 5 / 8
    assert game.tally().received["player_1"] == 2 * 5 / 8
    assert list(game.rewards(RewardRules()).performing) == list(game.players)
    assert list(game.rewards(RewardRules()).detection) == list(referee_seats(8))


@pytest.mark.parametrize("operator", ["span", "spans", "sentences", "removal", "marker", "none"])
@pytest.mark.parametrize("voters", ["all", "civilians", "referees"])
def test_all_civilians_vote_on_the_same_bytes_that_name_neither_role_nor_seat(voters, operator):
    game = performed(dealt(spy="player_3", voters=voters, operator=operator))
    prompts = observe(game, Stage.DETECTION)
    told = {prompt for seat, prompt in prompts.items() if seat != game.spy}
    assert len(told) == 1
    assert (prompts.get("player_3") in told) == (operator == "none" and voters == "all")
    for prompt in prompts.values():
        lowered = prompt.casefold()
        for word in ("you are", "your number", "your seat", "your own", "civilian", "player_", "referee_"):
            assert word not in lowered
        assert [line for line in prompt.split("\n") if line.startswith("Player ")] == [
            f"Player {i}:" for i in range(1, 6)
        ]


def test_there_is_no_ballot_before_all_have_performed():
    game = dealt().with_replies({"player_1": RawReply("Summary: a")})
    with pytest.raises(ValueError, match="no ballot before all 5 players have performed"):
        observe(game, Stage.DETECTION)
