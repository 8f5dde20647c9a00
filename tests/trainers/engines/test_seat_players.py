"""Who may play a seat: one syntax, players_help in one place."""

import pytest

from spy_env import Document, Rules, Stage, deal, observe
from trainers.engines import Request, Sampling
from trainers.engines.endpoint import EndpointEngine
from trainers.engines.players import (
    ANYWHERE,
    KINDS,
    ScriptedEngine,
    SeatPlayer,
    SeededEngine,
    engine_for,
    players_help,
    read_player,
)


@pytest.mark.parametrize(
    ("text", "player"),
    [
        ("scripted", ("scripted", "")),
        ("random", ("random", "")),
        ("human", ("human", "")),
        ("initial", ("initial", "")),
        ("past", ("past", "")),
        ("model:smollm2-135m", ("model", "smollm2-135m")),
        ("model:C:/models/a#1", ("model", "C:/models/a#1")),
        ("endpoint:http://localhost:8000/v1#my#model", ("endpoint", "http://localhost:8000/v1#my#model")),
    ],
)
def test_a_player_is_read_as_it_is_named(text, player):
    assert read_player(text, KINDS) == player


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no player ''"),
        ("clever", "no player 'clever';\na player is one of\n  scripted "),
        ("model", "no player 'model'"),
        ("model:", "no player 'model:'"),
        ("scripted:", "no player 'scripted:'"),
        ("past:3", "no player 'past:3'"),
        ("endpoint:http://localhost/v1", "endpoint 'http://localhost/v1' names no model; write endpoint:URL#MODEL"),
        ("endpoint:http://localhost/v1#", "names no model"),
        ("endpoint:#model", "names no model"),
    ],
)
def test_what_names_no_player_is_refused_with_those_there_are(text, message):
    with pytest.raises(ValueError, match=message):
        read_player(text, KINDS)


@pytest.mark.parametrize("text", ["initial", "past"])
def test_players_that_need_a_run_can_not_sit_at_just_any_table(text):
    with pytest.raises(ValueError, match=f"no player '{text}'"):
        read_player(text, ANYWHERE)
    assert text not in players_help(ANYWHERE)
    assert f"\n  {text} " in players_help(KINDS)


def test_each_player_gets_its_engine():
    assert isinstance(engine_for(SeatPlayer("scripted", "")), ScriptedEngine)
    assert isinstance(engine_for(SeatPlayer("human", "")), ScriptedEngine)
    assert isinstance(engine_for(SeatPlayer("random", "")), SeededEngine)
    pytest.importorskip("openai", reason="endpoints are asked through OpenAI's client")
    assert isinstance(engine_for(SeatPlayer("endpoint", "http://localhost:1/v1#m#1")), EndpointEngine)


def test_a_random_player_says_the_same_to_the_same_request_whatever_it_was_asked_before():
    text = " ".join(f"This is sentence {n}." for n in range(30))
    prompt = observe(deal(Document("d", text), "summarization", Rules(), "1"), Stage.PERFORMING)["player_1"]
    requests = [Request(prompt, f"seed/{n}", Sampling()) for n in range(20)]
    first, again = SeededEngine().generate(requests), SeededEngine().generate(requests[::-1])[::-1]
    assert first == again
    assert len(set(first)) > 5
