"""Probes find what is planted, and nothing where spies write as everybody does; no probe learns from what it judges."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from spy_env import RawReply, Rules, Stage, deal
from spy_env.diagnostics import PROBES, position_habit, shortcuts
from spy_env.diagnostics.probes import MASK, ROLE, count_cues, judged
from spy_env.diagnostics.shortcuts import LEVEL, TESTS, chance_of
from spy_env.diagnostics.shown import detector_share, shown
from tests.simulated_games import chinese, english, games

HALF = 0.6  # of spies that show the sign


def sometimes(sign):
    return lambda text, rng: f"{text} {sign}" if rng.random() < HALF else text


PLANTED = [
    ("length", lambda text, rng: f"{text} {text}", english),
    ("length", lambda text, rng: text[: len(text) // 3], english),
    ("mask", sometimes("A part is missing here."), english),
    ("mask", sometimes("It names [...] too."), english),
    ("mask", lambda text, rng: text.replace("mill", "****"), english),
    ("mask", sometimes("文中有一段被遮盖。"), chinese),
    ("role", sometimes("As the spy I say no more."), english),
    ("role", sometimes("我是卧底。"), chinese),
    ("refusal", sometimes("I'm sorry, but I cannot summarize this."), english),
    ("refusal", sometimes("抱歉，信息不足。"), chinese),
    ("copying", lambda text, rng: " ".join(rng.sample(text.split(), len(text.split()))), english),
    ("copying", lambda text, rng: "".join(rng.sample(text, len(text))), chinese),
    ("vocabulary", lambda text, rng: text.replace("The", "Perhaps the", 1), english),
    ("vocabulary", lambda text, rng: f"据说{text}", chinese),
]


@pytest.mark.parametrize(("name", "writes", "document_of"), PLANTED)
def test_a_planted_shortcut_is_found_under_its_name(name, writes, document_of):
    (finding,) = [
        one for one in shortcuts(games(60, 3, writes, document_of=document_of)) if one.name == f"shortcut/{name}"
    ]
    assert finding.alarm
    assert finding.found.low > finding.chance == 0.25
    assert name in finding.text


def test_a_spy_that_always_sits_in_one_seat_is_found_by_position():
    planted = [game for game in games(200, 4) if game.spy == "player_2"]
    alarms = {one.name for one in shortcuts(planted) if one.alarm}
    assert "shortcut/position" in alarms


def test_detectors_that_are_clearly_better_than_a_probe_silence_it():
    def longer(text, rng):
        return f"{text} {text}"

    def length(right):
        return next(one for one in shortcuts(games(80, 1, longer, right)) if one.name == "shortcut/length")

    guessing, good = length(0.3), length(1.0)
    assert guessing.found == good.found
    assert guessing.p_value == good.p_value < LEVEL / TESTS
    assert guessing.alarm
    assert not good.alarm
    assert good.ahead.low > 0


def alarms_in(count, **made):
    """In how many of ``count`` worlds without a shortcut anything is raised."""
    raised = 0
    for world in range(count):
        played = list(games(32, f"world {world}", **made))
        habit = position_habit(played)
        raised += any(one.alarm for one in shortcuts(played)) or bool(habit and habit.alarm)
    return raised


def test_where_nothing_is_planted_at_most_one_world_in_twenty_raises_an_alarm():
    assert alarms_in(60, right=0.0) <= 3  # some 1.5 % are expected: Bonferroni's correction and whole numbers of games


@pytest.mark.slow
@pytest.mark.parametrize("made", [{"right": 0.0}, {"document_of": chinese}, {"players": 6}])
def test_over_many_worlds_the_rate_of_false_alarms_stays_within_its_level(made):
    assert alarms_in(400, **made) / 400 <= LEVEL


def test_without_the_correction_false_alarms_would_be_common():
    raised = sum(any(one.alarm for one in shortcuts(games(32, f"world {w}", right=0.0), level=2.0)) for w in range(20))
    assert raised > 1


@pytest.mark.parametrize("name", PROBES)
def test_no_probe_knows_the_spy_of_the_game_that_it_judges_nor_of_later_ones(name):
    played = list(games(12, 5, lambda text, rng: f"{text} {text} Perhaps so."))
    looks = [(game, shown(game)) for game in played]
    said = [list(named) for named in judged(PROBES[name](), looks)]

    for at in range(12):
        moved = [
            (replace(game, spy=next(p for p in game.players if p != game.spy)), texts) if i >= at else (game, texts)
            for i, (game, texts) in enumerate(looks)
        ]
        assert [list(named) for named in judged(PROBES[name](), moved)][: at + 1] == said[: at + 1]


def test_deals_that_are_played_again_teach_nobody_their_spy():
    played = list(games(24, 3, right=0.0))
    again = [*played[:12], *played[:6], *played, *played]
    assert shortcuts(again) == shortcuts(played)
    assert position_habit(again) == position_habit(played)


def test_words_that_the_document_holds_are_no_sign_of_a_mask():
    signs = "A part is missing [...] and as the spy I cannot summarize it, I'm sorry."

    def with_signs(number):
        document = english(number)
        return type(document)(document.id, f"{document.text} {signs}")

    played = list(games(60, 6, lambda text, rng: f"{text} {signs}", document_of=with_signs))
    found = {one.name: one for one in shortcuts(played)}
    for name in ("mask", "role", "refusal"):
        assert found[f"shortcut/{name}"].p_value == 1
        assert not found[f"shortcut/{name}"].alarm


@pytest.mark.parametrize(
    "text", ["**Bold** and *so on*.", "The missing-children act", "2 * 3 * 4", "A spyglass, dismissing."]
)
def test_bold_type_and_sums_are_no_sign_by_themselves(text):

    assert count_cues(MASK, text, "The missing-children act") == count_cues(ROLE, text, "") == 0


def test_the_chance_of_at_least_so_many_is_that_of_all_outcomes_counted():
    rng = Random(1)
    chances = [rng.random() for _ in range(7)]
    for wanted in range(8):
        counted = 0.0
        for outcome in product((False, True), repeat=7):
            if sum(outcome) >= wanted:
                weight = 1.0
                for hit, p in zip(outcome, chances, strict=True):
                    weight *= p if hit else 1 - p
                counted += weight
        assert chance_of([True] * wanted + [False] * (7 - wanted), chances) == pytest.approx(counted)


def test_votes_that_go_to_one_number_are_a_habit_and_votes_for_the_spy_are_none():

    def voting(game, number):
        said = {seat: RawReply(rf"\boxed{{{number}}}") for seat in game.voters}
        return replace(game, replies={**game.replies, Stage.DETECTION: said})

    played = list(games(30, 8))
    stubborn = position_habit([voting(game, 2) for game in played])
    assert stubborn.alarm
    assert stubborn.found.value == 1
    assert "now 2" in stubborn.text
    fair = position_habit([voting(game, game.spy[-1]) for game in played])
    assert not fair.alarm


def test_games_that_are_not_over_say_nothing():

    assert shortcuts([deal(english(1), "summarization", Rules(players=4), "1")]) == []
    assert position_habit([]) is None


def test_the_detectors_are_the_trained_voters_alone():
    game = next(iter(games(1, 9, right=0.0)))
    votes = game.votes()
    civilians = [vote for seat, vote in votes.items() if seat != game.spy]
    assert detector_share(game) == civilians.count(game.spy) / 3
