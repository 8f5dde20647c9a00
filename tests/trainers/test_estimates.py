"""Intervals: hand-worked values, games as the units that count, and coverage by simulation."""

from random import Random
from statistics import stdev

import pytest

from spy_env import PRESETS, RewardRules
from tests.trainers.made_games import voted
from trainers.metrics import Estimate, average, measure, share, signal_estimates

NEAR = 5e-5


@pytest.mark.parametrize(
    ("hits", "counts", "value", "low", "high"),
    [
        # one vote a game: the effective size is games - 1 = 9, so the middle is (0.8 + z^2/18) / (1 + z^2/9) = 0.71026
        # and the half width z / (1 + z^2/9) sqrt(0.16/9 + z^2/324) = 0.23647
        ([1] * 8 + [0] * 2, [1] * 10, 0.8, 0.47379, 0.94672),
        # ten games of four votes that all agree weigh less than ten votes: n = 9 (t39 / t9)^2 = 9 (2.0227 / 2.2622)^2 = 7.195
        ([4] * 5 + [0] * 5, [4] * 10, 0.5, 0.20502, 0.79498),
        # ten games, each half right: no game tells more than its votes, n = 40
        ([2] * 10, [4] * 10, 0.5, 0.35200, 0.64800),
        # degenerate shares: n is the number of games, and the far bound z^2 / (n + z^2) away
        ([0] * 10, [4] * 10, 0.0, 0.0, 0.27753),
        ([4] * 10, [4] * 10, 1.0, 0.72247, 1.0),
        # games without votes of this kind don't count: n is 10, not 12
        ([0] * 12, [4] * 10 + [0] * 2, 0.0, 0.0, 0.27753),
        # one game alone: as much as one vote
        ([2], [4], 0.5, 0.05462, 0.94538),
    ],
)
def test_a_shares_interval_is_wilsons_at_the_effective_number_of_votes(hits, counts, value, low, high):
    estimate = share(hits, counts)
    assert estimate[:3] == pytest.approx((value, low, high), abs=NEAR)
    assert estimate.n == sum(counts)


def test_games_of_unequal_size_are_weighed_by_their_votes():
    # p = 6/8; squares (3 - 3)^2 + (1 - 0.75)^2 + (2 - 2.25)^2 = 0.125; variance 3/2 * 0.125/64; 0.1875 / that is
    # 64, times (t7 / t2)^2 = 0.302 still more than the 8 votes there are, so n = 8
    assert share([3, 1, 2], [4, 1, 3]) == pytest.approx((0.75, 0.40928, 0.92852, 8), abs=NEAR)


@pytest.mark.parametrize("games", [1, 2, 7, 11, 24, 100, 1000])
def test_no_interval_leaves_zero_and_one_by_a_rounding_error(games):
    nobody, everybody = share([0] * games, [1] * games), share([1] * games, [1] * games)
    assert nobody.low == 0
    assert everybody.high == 1
    assert not str(nobody).startswith("0.000 [-")
    assert everybody.low == pytest.approx(1 - nobody.high)


def test_a_share_of_nothing_could_be_anything():
    assert share([], []) == share([0, 0], [0, 0]) == Estimate(0.0, 0.0, 1.0, 0)


def clustered(rng, games, votes, right, alike):
    """Right votes by game: with chance ``alike`` a game's voters all follow one opinion, else each votes alone."""
    hits = []
    for _ in range(games):
        if rng.random() < alike:
            hits.append(votes * (rng.random() < right))
        else:
            hits.append(sum(rng.random() < right for _ in range(votes)))
    return hits


@pytest.mark.parametrize(
    ("games", "right", "alike"), [(12, 0.25, 0.4), (24, 0.25, 0.4), (24, 0.6, 0.8), (24, 0.5, 0.0)]
)
def test_the_interval_of_correlated_votes_covers_the_truth(games, right, alike):
    rng = Random(f"{games}/{right}/{alike}")
    covered = 0
    for _ in range(1000):
        estimate = share(clustered(rng, games, 4, right, alike), [4] * games)
        covered += estimate.low <= right <= estimate.high
    assert covered >= 920


def test_taking_correlated_votes_for_independent_ones_would_not_cover():
    rng = Random(1)
    covered = 0
    for _ in range(1000):
        hits = sum(clustered(rng, 24, 4, 0.25, 0.8))
        estimate = share([1] * hits + [0] * (96 - hits), [1] * 96)  # each vote as if it were a game
        covered += estimate.low <= 0.25 <= estimate.high
    assert covered < 850


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (6, 2.447),
        (8, 2.306),
        (10, 2.228),
        (20, 2.086),
        (30, 2.042),
        (120, 1.980),
    ],
)
def test_a_means_interval_has_students_quantiles(freedom, quantile):
    rng = Random(freedom)
    values = [rng.gauss(3, 2) for _ in range(freedom + 1)]
    estimate = average(values)
    half = quantile * stdev(values) / (freedom + 1) ** 0.5
    mean = sum(values) / len(values)
    assert estimate[:3] == pytest.approx((mean, mean - half, mean + half), abs=0.002 * half)
    assert estimate.n == freedom + 1


def test_a_mean_of_few_games_covers_the_truth():
    rng = Random(5)
    for size in (2, 3, 6):
        estimates = [average([rng.gauss(1, 1) for _ in range(size)]) for _ in range(1000)]
        assert 930 <= sum(estimate.low <= 1 <= estimate.high for estimate in estimates) <= 970


def test_a_mean_of_one_game_or_none_could_be_anything():
    infinite = float("inf")
    assert average([]) == Estimate(0.0, -infinite, infinite, 0)
    assert average([0.25]) == Estimate(0.25, -infinite, infinite, 1)
    assert average([0.25] * 3) == Estimate(0.25, 0.25, 0.25, 3)


def test_an_estimate_is_told_with_three_digits():
    assert str(Estimate(0.25, 0.12345, 0.5, 8)) == "0.250 [0.123, 0.500]"


def test_what_is_measured_of_two_games_is_as_counted_by_hand():
    games = [voted("2 1 N/A ?", "a"), voted("1 1 1 3", "b")]  # the spy, player 1, votes first
    measured = measure(games, RewardRules())
    # margins: 1 - 1/3 and 3 - 1/3
    assert measured == {
        "readable votes": share([3, 4], [4, 4]),
        "votes that name a player": share([2, 4], [4, 4]),
        "detection accuracy": share([1, 2], [3, 3]),
        "detection accuracy where a player is named": share([1, 2], [1, 3]),
        "named votes for the commonest number": share([1, 3], [2, 4]),  # player 1
        "performing reward, spy": pytest.approx(average([-0.2 / 3, -0.8 / 3])),
        "detection reward, spy": average([0, 1]),
        "performing reward, civilian": pytest.approx(average([0.2 / 9, 0.8 / 9])),
        "detection reward, civilian": average([1 / 3, 2 / 3]),
    } | signal_estimates(games)


def test_what_texts_hold_is_measured_by_role_beside_detectors_without_a_model():
    found = signal_estimates([voted("2 1 N/A ?", "a"), voted("1 1 1 3", "b")])
    assert found["length, civilian"].value == found["length, spy"].value == 3  # "A mill burned."
    assert found["found by oracle of hidden words"].value == 0.25  # all say the same
    assert {name.rpartition(", ")[2] for name in found if not name.startswith("found by ")} == {"civilian", "spy"}


def test_measures_are_paid_by_the_rules_given():
    paid = measure([voted("2 1 N/A ?", "a"), voted("1 1 1 3", "b")], PRESETS["vision_zero"])
    assert paid["detection reward, civilian"] == average([(1 - 0.5 - 1) / 3, (1 + 1 - 1) / 3])
    assert paid["detection reward, spy"] == average([-1, 1])


@pytest.mark.parametrize(
    ("voters", "votes", "accuracy", "absent"),
    [
        ("civilians", "1 2 ?", share([1], [3]), {"detection reward, spy", "detection reward, referee"}),
        ("referees", "1 1 2", share([2], [3]), {"detection reward, spy", "detection reward, civilian"}),
        ("all", "1 1 2 ?", share([1], [3]), {"detection reward, referee"}),
    ],
)
def test_roles_that_do_not_vote_have_no_detection_reward(voters, votes, accuracy, absent):
    measured = measure([voted(votes, voters=voters, referees=3)], RewardRules())
    assert measured["detection accuracy"] == accuracy
    rewards = {name for name in measured if "reward" in name}
    expected = {f"detection reward, {role}" for role in ("spy", "civilian", "referee")} - absent
    assert rewards == expected | {"performing reward, spy", "performing reward, civilian"}


def test_a_role_is_measured_in_the_games_that_have_it():
    games = [
        voted("1 2 ? 2", "a"),
        voted("1 2 2", "b", voters="civilians"),
        voted("1 1", "c", voters="referees", referees=2),
    ]
    measured = measure(games, RewardRules())
    assert measured["detection reward, spy"] == average([1])
    assert measured["detection reward, civilian"] == average([0, 1 / 3])
    assert measured["detection reward, referee"] == average([1])


def test_no_games_measure_nothing():
    measured = measure([], RewardRules())
    assert len(measured) == 5
    assert set(measured.values()) == {Estimate(0.0, 0.0, 1.0, 0)}
