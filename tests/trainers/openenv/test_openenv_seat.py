"""The seat of a session, without the protocol: what a reset may ask for, and the same game as through the other doors."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import pytest

from spy_env import Document, RewardRules, Rules, Stage, load_task, shipped_documents
from spy_env.players import scripted_player
from spy_env.seat_view import SeatEnv
from trainers.engines import Failed, Reply, Sampling
from trainers.engines.players import ScriptedEngine, SeededEngine
from trainers.openenv.command import main
from trainers.openenv.offer import MAX_SEATS, Offer, OneAtATime, OpponentsFailedError, check_text

DOCUMENTS = list(shipped_documents(load_task("summarization")))
OFFER = Offer(
    documents={"summarization": DOCUMENTS, "creative_writing": DOCUMENTS},
    opponents={"scripted": ScriptedEngine(scripted_player()), "random": SeededEngine()},
    rules=Rules(),
    rewards=RewardRules(),
    sampling=dict.fromkeys((Stage.PERFORMING, Stage.DETECTION), Sampling(64)),
    max_len=None,
    max_text=10_000,
)
SEATS = [
    ("all", "player_1"),
    ("all", "player_4"),
    ("civilians", "player_2"),
    ("referees", "player_3"),
    ("referees", "referee_2"),
]


def dealt(seed=0, offer=OFFER, **options):
    return offer.deal(options, Random(seed))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("voters", "seat"), SEATS)
def test_a_session_is_the_same_game_as_the_seat_view(voters, seat, seed):
    door = SeatEnv(seat, documents=DOCUMENTS, rules=Rules(voters=voters))
    view, _ = door.reset(seed=seed)
    session, over = dealt(seed, seat=seat, rules={"voters": voters}), False
    replies = ["Summary: something short about it.", r"I think \boxed{2}"]
    if seat.startswith("referee"):
        replies = replies[1:]
    while not over:
        assert session.prompt == view["prompt"]
        reply = replies.pop(0)
        view, reward, over, _, _ = door.step(reply)
        session = session.replied(reply)
        assert (session.game.stage is Stage.OVER) == over
    earned = session.game.rewards(OFFER.rewards)
    assert earned.performing.get(seat, 0.0) + earned.detection.get(seat, 0.0) == reward
    assert session.game == door.table.game


def test_chance_of_a_game_comes_from_its_seed_alone():
    first = dealt(5, opponents="random").replied("x").replied("y").game
    dealt(6, opponents="random").replied("x")
    assert dealt(5, opponents="random").replied("x").replied("y").game == first
    assert dealt(6, opponents="random").game.seed != first.seed


def test_opponents_are_named_by_seat_by_role_or_for_all():
    session = dealt(1, opponents={"spy": "random", "player_2": "scripted"})
    policies, game = session.seats, session.game
    assert game.spy != "player_2"
    assert policies.engine_of(game, game.spy) is OFFER.opponents["random"]
    assert policies.engine_of(game, "player_2") is OFFER.opponents["scripted"]
    assert dealt(opponents="random").seats.engine is OFFER.opponents["random"]
    assert dealt().seats.engine is OFFER.opponents["scripted"]


def test_a_document_of_the_clients_is_played():
    text = "One two three four five six seven eight nine ten."
    assert dealt(document=text).game.document == Document("given", text)
    assert dealt(document={"id": "mine", "text": text}).game.document == Document("mine", text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "math_reasoning"}, "no task 'math_reasoning' here; choose one of"),
        ({"task": "/tmp/evil.py"}, "here; choose one of"),
        ({"task": ["summarization"]}, "here; choose one of"),
        ({"opponents": "endpoint:http://elsewhere#m"}, "here; choose one of"),
        ({"opponents": {"player_2": {}}}, "here; choose one of"),
        ({"opponents": {"player_9": "scripted"}}, "name seats"),
        ({"opponents": 7}, "here; choose one of"),
        ({"seat": "referee_1"}, "no seat 'referee_1'"),
        ({"seat": {"a": 1}}, "no seat"),
        ({"rules": {"players": 2}}, "at least 3"),
        ({"rules": {"players": True}}, "it takes int"),
        ({"rules": {"players": MAX_SEATS + 1}}, "at most"),
        ({"rules": {"referees": 10**12}}, "at most"),
        ({"rules": {"referees": 10**2000}}, "at most"),
        ({"rules": {"operator": "x" * 5000}}, "no masking operator"),
        ({"rules": {"mask_fraction": float("nan")}}, "mask_fraction"),
        ({"rules": {"prompts": "/etc/prompts.py"}}, "no prompts '/etc/prompts.py' here; choose one of"),
        ({"rules": {"prompts": "os:PROMPTS"}}, "no prompts 'os:PROMPTS' here"),
        ({"rules": {"colour": 1}}, "unknown"),
        ({"rules": "fast"}, "rules is 'fast'"),
        ({"document": 5}, "document is 5"),
        ({"document": {"text": "x"}}, "give its text"),
        ({"document": "x " * 10_000}, "at most 10000"),
        ({"document": "too short"}, "too short to play"),
        ({"speed": 1, "x" * 5000: 2}, "no options"),
    ],
)
def test_what_cannot_be_had_is_an_error_of_a_readable_size(options, message):
    with pytest.raises(ValueError, match=message) as raised:
        dealt(**options)
    assert len(str(raised.value)) < 1000


def test_text_is_checked_for_kind_and_length():
    assert check_text("the reply", "abc", 3) == "abc"
    with pytest.raises(ValueError, match="at most 3"):
        check_text("the reply", "abcd", 3)
    with pytest.raises(ValueError, match="give text"):
        check_text("the reply", None, 3)


class Flaky:
    """Fails every request as long as ``down``."""

    def __init__(self):
        self.down = False

    def generate(self, requests):
        return [Failed("the line is dead") if self.down else Reply("\\boxed{1}") for _ in requests]

    def count_tokens(self, prompt, prefill):
        return 0


def test_a_failure_of_the_opponents_scores_nothing_and_the_same_reply_goes_on():
    engine = Flaky()
    session = dealt(offer=replace(OFFER, opponents={"flaky": engine}))
    engine.down = True
    with pytest.raises(OpponentsFailedError, match="the line is dead; nothing was scored"):
        session.replied("x")
    engine.down = False
    assert session.replied("x").game.stage is Stage.DETECTION


def test_a_game_that_is_over_takes_no_reply():
    over = dealt().replied("x").replied("y")
    assert over.prompt == ""
    with pytest.raises(ValueError, match="reset deals the next one"):
        over.replied("z")


def test_a_seats_prompt_holds_nothing_that_depends_on_who_else_is_the_spy():
    games = [dealt(seed, document=" ".join(f"word{i}" for i in range(50))) for seed in range(12)]
    prompts = {session.prompt for session in games if session.game.spy != session.seat}
    assert len(prompts) == 1
    assert "hidden" not in json.dumps(list(prompts))


class Overlapping:
    """Notices when it is asked by two threads at once."""

    def __init__(self):
        self.inside, self.most = 0, 0

    def generate(self, requests):
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.002)
        self.inside -= 1
        return [Reply("\\boxed{1}") for _ in requests]

    def count_tokens(self, prompt, prefill):
        self.generate([])
        return 7


def test_an_engine_behind_the_lock_answers_one_session_at_a_time():
    engine = Overlapping()
    offer = replace(OFFER, opponents={"model": OneAtATime(engine)}, max_len=100_000)
    with ThreadPoolExecutor(8) as pool:
        games = list(pool.map(lambda seed: dealt(seed, offer).replied("x").replied("y").game, range(8)))
    assert {game.stage for game in games} == {Stage.OVER}
    assert engine.most == 1


def test_a_vote_prompt_of_the_seat_has_the_room_that_the_others_models_have():
    offer = replace(OFFER, opponents={"counting": Counting()}, max_len=900)
    session = dealt(3, offer, seat="player_2").replied("word " * 700)
    game = session.game
    assert game.stage is Stage.DETECTION
    assert game.detection_words or game.shown_characters
    assert len(session.prompt.split()) <= 900 - 64


class Counting:
    """A model that reads a word as a token."""

    def generate(self, requests):
        return [Reply("Summary: short") for _ in requests]

    def count_tokens(self, prompt, prefill):
        return len(prompt.split())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max_sessions", "0"], "give a number from 1 to 100000"),
        (["--session_timeout", "nan"], "--session_timeout is nan; give a number from 0.01"),
        (["--timeout", "0"], "--timeout is 0.0; give a number from 0.01"),
        (["--max_new_tokens", "0"], "max_new_tokens is 0"),
        (["--temperature", "nan"], "temperature is nan"),
        (["--opponent", "human"], "no player 'human'"),
        (["--task", "poem"], "no task named 'poem'"),
        (["--documents", "/nowhere.jsonl"], "nowhere"),
        (["--port", "99999"], "give a number from 0 to 65535"),
    ],
)
def test_wrong_flags_are_refused_in_a_line(flags, message):
    with pytest.raises(ValueError, match=message):
        main([*flags, "--dry-run"])


def test_a_dry_run_says_what_would_be_served(capsys):
    main(["--task", "summarization", "creative_writing", "--opponent", "random", "--dry-run"])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["summarization: 48 documents", "creative_writing: 48 documents", "opponents: random"]


def test_a_server_without_openenv_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openenv", None)
    monkeypatch.delitem(sys.modules, "trainers.openenv.server", raising=False)
    with pytest.raises(ValueError, match=r"pip install -e '.\[openenv\]'"):
        main(["--port", "0"])
