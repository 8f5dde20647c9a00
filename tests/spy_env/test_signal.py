"""Signal: what an oracle finds where texts tell the spy, and the warning where they don't."""

from random import Random

import pytest

from spy_env import Document, RawReply, Rules, Stage, deal, hide
from spy_env.diagnostics import diagnose, signal
from spy_env.diagnostics.signal import FEWEST, ORACLE, OTHERS

WORDS = [
    f"{a}{b}" for a in ("mill", "rive", "harv", "towe", "coun", "brid") for b in ("alpha", "bravo", "gamma", "delta")
]


def played(number, performs, players=4):
    rng = Random(number)
    text = " ".join(rng.sample(WORDS, 20))
    game = deal(Document("d", text), "summarization", Rules(players=players, mask_fraction=0.4), str(number))
    seen = {seat: hide(text, game.hidden) if seat == game.spy else text for seat in game.players}
    game = game.with_replies({seat: RawReply(performs(seen[seat], rng)) for seat in game.players})
    return game.with_replies({seat: RawReply(r"\boxed{1}") for seat in game.voters})


def tells_all(copy, rng):
    return " ".join(word for word in copy.split() if "*" not in word)


def tells_nothing(copy, rng):
    return "this text says something else"


def test_where_players_say_what_they_see_the_oracle_and_the_others_words_find_the_spy():
    found = signal(played(i, tells_all) for i in range(FEWEST))
    assert found.detectors[ORACLE].value == found.detectors[OTHERS].value == 1
    assert found.measures["hidden words said"]["civilian"].value == 1
    assert found.measures["hidden words said"]["spy"].value == 0
    assert found.measures["overlap with the document"]["spy"].value == 1
    assert found.measures["copied runs of five words"]["civilian"].value == 1
    assert found.measures["length"]["civilian"].value == 20
    assert found.measures["length"]["spy"].value == 12
    assert not found.alarm
    assert "signal/none" not in diagnose(played(i, tells_all) for i in range(FEWEST)).alarms


def test_texts_that_tell_nothing_leave_the_oracle_at_chance_and_raise_the_alarm():
    games = [played(i, tells_nothing) for i in range(FEWEST)]
    found = signal(games)
    assert found.detectors[ORACLE].value == found.chance == pytest.approx(0.25)
    assert found.measures["overlap with the document"]["civilian"].value == 0
    assert "oracle" in found.alarm
    assert diagnose(games).alarms["signal/none"] == found.alarm
    assert diagnose(games).metrics["diagnostics/signal/hidden_words_said/civilian"] == 0


def test_a_few_games_raise_no_alarm_and_games_that_are_not_over_say_nothing():
    games = [played(i, tells_nothing) for i in range(FEWEST - 1)]
    assert not signal(games).alarm
    assert signal([]) is None
    assert signal([deal(Document("d", "one two three four five six"), "summarization", Rules(), "1")]) is None


def test_a_player_that_talks_of_the_game_or_shows_the_mask_is_counted():
    def performs(copy, rng):
        return f"As a civilian I see {copy}"

    found = signal(played(i, performs) for i in range(4))
    assert found.measures["mentions of the game"]["civilian"].value == 1
    assert found.measures["traces of the mask"]["spy"].value == 1
    assert found.measures["traces of the mask"]["civilian"].value == 0


def test_games_whose_hidden_words_are_all_seen_elsewhere_are_left_out():
    game = deal(Document("d", "alpha " * 20), "summarization", Rules(players=4, mask_fraction=0.4), "1")
    game = game.with_replies({seat: RawReply("alpha") for seat in game.players})
    game = game.with_replies({seat: RawReply(r"\boxed{1}") for seat in game.voters})
    assert game.stage is Stage.OVER
    assert signal([game]) is None
