"""The learner on either side against a fixed opponent: who sits where, and the curves, worked out by hand."""

import json

import pytest

from spy_env import RewardRules, Stage
from tests.trainers.engines.counting_engine import CountingEngine
from tests.trainers.made_games import dealt, voted
from trainers.embedded.evaluation import CIVILIANS, SELF_PLAY, SPY, file_of, matches_of, measure_against, measure_all
from trainers.engines import Sampling
from trainers.metrics import Estimate, measure
from trainers.rollout import SeatPolicies

SAMPLING = {Stage.PERFORMING: Sampling(20), Stage.DETECTION: Sampling(10)}
RULES = RewardRules()


@pytest.mark.parametrize("voters", ["all", "civilians", "referees"])
def test_the_opponent_plays_every_role_that_the_learner_does_not(voters):
    learner, opponent = CountingEngine(), CountingEngine()
    matches = matches_of(SeatPolicies(learner, SAMPLING), opponent)
    game = dealt(spy="player_3", voters=voters, referees=2)
    seats = dict.fromkeys([*game.players, *game.voters])
    played_by_the_learner = {
        kind: {seat for seat in seats if seating.engine_of(game, seat) is learner} for kind, seating in matches.items()
    }
    assert played_by_the_learner == {
        SELF_PLAY: set(seats),
        SPY: {"player_3"},
        CIVILIANS: set(seats) - {"player_3"},
    }
    assert list(matches_of(SeatPolicies(learner, SAMPLING), None)) == [SELF_PLAY]


def test_files_of_matches_end_with_their_iteration_and_self_plays_keep_their_names():
    assert [file_of(kind, "000010") for kind in (SELF_PLAY, SPY, CIVILIANS)] == [
        "eval_000010.jsonl",
        "eval_spy_000010.jsonl",
        "eval_civilians_000010.jsonl",
    ]


def test_the_curves_are_as_worked_out_by_hand():
    # players 1 (the spy) to 4 vote; the margin is the spy's votes less the civilians' mean
    as_spy = [voted("2 1 1 2", "a"), voted("3 2 2 N/A", "b"), voted("4 1 1 1", "c")]  # margins 2 - 2/3, -1, 3 - 1/3
    as_civilians = [voted("2 1 1 1", "a"), voted("2 1 2 3", "b"), voted("? 1 ? ?", "c")]  # 3 - 1/3, 1 - 1, 1
    measured = measure_against(as_spy, as_civilians, RULES)
    spy = [-0.1 * 4 / 3, 0.1, -0.1 * 8 / 3]
    opponents_spy = [-0.1 * 8 / 3, 0.0, -0.1]
    values = {name: estimate.value for name, estimate in measured.items()}
    assert values == pytest.approx(
        {
            "learner spy: votes received": (2 + 0 + 3) / 3,
            "learner spy: not caught": 2 / 3,  # of a two votes each: not the spy alone
            "learner spy: performing reward": sum(spy) / 3,
            "learner civilians: performing reward": -sum(opponents_spy) / 3 / 3,
            "learner civilians: detection accuracy": (3 + 1 + 1) / 9,
            "learner on both sides: performing reward": sum(spy) / 3 - sum(opponents_spy) / 3,
        }
    )
    assert {estimate.n for name, estimate in measured.items() if "accuracy" not in name} == {3}
    assert measured["learner civilians: detection accuracy"].n == 9
    assert all(estimate.low < estimate.value < estimate.high for estimate in measured.values())


def test_against_oneself_both_sides_together_earn_exactly_nothing():
    games = [voted("2 1 1 2", "a"), voted("3 2 2 N/A", "b")]
    both = measure_against(games, games, RULES)["learner on both sides: performing reward"]
    assert both == Estimate(0.0, 0.0, 0.0, 2)


def test_referees_votes_are_weighed_and_are_the_learners_where_it_plays_the_civilians():
    as_spy = [voted("1 1", voters="referees", referees=2)]
    as_civilians = [voted("1 2", voters="referees", referees=2)]
    measured = measure_against(as_spy, as_civilians, RULES)
    assert measured["learner spy: votes received"].value == 4  # two referees stand for four voters
    assert measured["learner spy: not caught"].value == 0
    assert measured["learner civilians: detection accuracy"].value == 0.5


def test_self_plays_measures_keep_their_names_and_stand_first():
    games = [voted("2 1 1 2", "a"), voted("3 2 2 N/A", "b")]
    alone = measure_all({SELF_PLAY: games}, RULES)
    assert alone == measure(games, RULES)
    with_matches = measure_all({SELF_PLAY: games, SPY: games, CIVILIANS: games}, RULES)
    assert list(with_matches)[: len(alone)] == list(alone)
    assert all(name.startswith("learner ") for name in list(with_matches)[len(alone) :])


def test_a_point_of_the_curves_has_values_intervals_and_the_opponents_name():
    pytest.importorskip("torch", reason="evaluations are written into a run's folder")
    from trainers.embedded.evaluation import curve_row

    measured = {"a": Estimate(0.5, 0.25, 0.75, 8), "b": Estimate(1.0, float("-inf"), float("inf"), 1)}
    assert curve_row(3, measured, "") == {"step": 3, "a": 0.5, "b": 1.0}
    row = curve_row(3, measured, "initial")
    assert row == {
        **{"step": 3, "a": 0.5, "b": 1.0, "opponent": "initial"},
        "intervals": {"a": [0.25, 0.75], "b": [None, None]},
    }
    json.dumps(row, allow_nan=False)
