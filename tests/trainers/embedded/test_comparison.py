"""What a run says of itself at its end: changes paired by deal, and one sentence that claims no more than they show."""

import pytest

pytest.importorskip("torch", reason="the trainer needs it")

from spy_env import Document, RawReply, RewardRules, Rules, deal
from trainers.embedded.evaluation import NOTHING, Comparison
from trainers.metrics import Estimate, changes, measure

WORDS = [
    "alpha",
    "bravo",
    "charlie",
    "delta",
    "echoes",
    "foxtrot",
    "golfing",
    "hotels",
    "indigo",
    "juliet",
    "kilos",
    "limas",
]


def played(number, civilians, votes="1"):
    """A game on one document whose civilians say ``civilians`` words of it, its spy none."""
    game = deal(Document("d", " ".join(WORDS)), "summarization", Rules(players=4, mask_fraction=0.5), str(number))
    said = {seat: " ".join(["something", *WORDS[:civilians]]) for seat in game.players} | {game.spy: "something"}
    game = game.with_replies({seat: RawReply(text) for seat, text in said.items()})
    return game.with_replies({seat: RawReply(rf"\boxed{{{votes}}}") for seat in game.voters})


def compared(before, after):
    rules = RewardRules()
    old, new = measure(before, rules), measure(after, rules)
    return Comparison({name: (old[name], new[name]) for name in old}, changes(before, after))


def test_changes_are_means_over_deals_of_after_minus_before():
    before, after = [played(i, 3) for i in range(8)], [played(i, 9) for i in range(8)]
    found = changes(before, after)
    assert found["overlap with the document, civilian"].value == pytest.approx(9 / 10 - 3 / 4)
    assert found["overlap with the document, spy"] == (0, 0, 0, 8)
    assert found["length, civilian"].value == 6
    assert found["detection accuracy"].value == 0
    assert set(found) <= set(measure(before, RewardRules()))


def test_what_rose_clearly_is_said_with_its_values_and_nothing_else_is():
    before, after = [played(i, 3) for i in range(8)], [played(i, 9) for i in range(8)]
    sentence = compared(before, after).sentence
    assert "the share of a civilian's words that the document has rose from 0.75 to 0.90" in sentence
    assert "right votes" not in sentence
    assert "fell from 0.90 to 0.75" in compared(after, before).sentence


def test_without_a_clear_change_nothing_is_claimed():
    games = [played(i, 3) for i in range(8)]
    assert compared(games, games).sentence == NOTHING
    noise = Comparison(
        {"detection accuracy": (Estimate(0.2, 0.1, 0.3, 8), Estimate(0.4, 0.2, 0.6, 8))},
        {"detection accuracy": Estimate(0.2, -0.1, 0.5, 8)},
    )
    assert noise.sentence == NOTHING


def test_rows_have_a_change_only_where_one_is_taken():
    rows = {row[0]: row[1:] for row in compared([played(0, 3), played(1, 3)], [played(0, 4), played(1, 5)]).rows}
    assert rows["readable votes"][2] == ""
    assert rows["length, civilian"][2].startswith("1.500 [")


def test_no_deals_have_no_changes():
    assert changes([], []) == {}
    assert Comparison({}, {}).rows == []
