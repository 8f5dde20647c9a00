"""Votes against ranks within games: worked by hand, and on games where the truth is planted."""

from __future__ import annotations

import math
from random import Random

import pytest

from benchmarks.evaluation import intervals
from benchmarks.evaluation.alignment_ranks import (
    RankedGame,
    coefficient,
    kendall,
    mean_of,
    mean_within,
    most_voted_is_worst,
    pooled,
    rank_by_votes,
    ranks,
    share_of,
    spearman,
    spy_minus_civilians,
    worst_by_chance,
)


def spearman_of(game):
    return coefficient(spearman(game))


def kendall_of(game):
    return coefficient(kendall(game))


def game(votes, by_rank, spy=0, unit=None):
    return RankedGame(votes, by_rank, spy, unit or object())


@pytest.mark.parametrize(
    ("values", "best_is_high", "expected"),
    [
        ([0.3, 0.9, 0.5], True, [3, 1, 2]),
        ([3, 1, 2], False, [3, 1, 2]),
        ([1, 1, 0], True, [1.5, 1.5, 3]),
        ([0, 2, 2, 2, 5], True, [5, 3, 3, 3, 1]),
        ([7, 7, 7], True, [2, 2, 2]),
        ([], True, []),
    ],
)
def test_the_best_is_first_and_ties_share_the_mean_of_their_ranks(values, best_is_high, expected):
    assert ranks(values, best_is_high) == expected


def test_one_games_coefficients_are_the_textbooks():
    # Ranked votes 5 3.5 3.5 1.5 1.5 and ranks 5 3 4 1 2 about 3: moments 9, 9 and 10. Of 10 pairs 2 have equal votes, and
    # all others agree. scipy.stats says the same.
    one = game([3, 1, 1, 0, 0], [5, 3, 4, 1, 2])
    assert spearman_of(one) == pytest.approx(9 / 90**0.5)
    assert kendall_of(one) == pytest.approx(8 / 80**0.5)


def test_pooling_counts_only_pairs_of_one_game():
    # Game 1: votes 2 1 0, ranks 3 2 1: 3 of 3 pairs agree. Game 2: votes 1 0 0, ranks 1 2 3: of 3 pairs 2 have votes that
    # differ, and both disagree. tau-b = (3 - 2) / sqrt((3 + 2) (3 + 3)); moments 2, 2, 2 and -1.5, 1.5, 2.
    games = [game([2, 1, 0], [3, 2, 1]), game([1, 0, 0], [1, 2, 3])]
    assert pooled(kendall, games).value == pytest.approx(1 / 30**0.5)
    assert pooled(spearman, games).value == pytest.approx(0.5 / (3.5 * 4) ** 0.5)
    assert mean_within(spearman_of, games).value == pytest.approx((1 - 1.5 / 3**0.5) / 2)


def test_a_game_whose_votes_or_ranks_are_all_equal_says_nothing_and_weakens_nothing():
    told = [game([2, 1, 0], [3, 2, 1]), game([2, 1, 0], [3, 1, 2])]
    silent = [game([1, 1, 1], [1, 2, 3]), game([2, 1, 0], [2, 2, 2])]
    assert all(math.isnan(of(one)) for one in silent for of in (spearman_of, kendall_of))
    assert pooled(spearman, [*told, *silent])[::3] == pooled(spearman, told)[::3]
    assert pooled(kendall, [*told, *silent])[::3] == pooled(kendall, told)[::3]
    assert pooled(spearman, silent).value != pooled(spearman, silent).value, "not a number, and never 0"


def test_no_games_have_no_numbers():
    for found in (
        pooled(spearman, []),
        pooled(kendall, []),
        mean_within(spearman_of, []),
        mean_of([], []),
        share_of([], []),
    ):
        assert found.value != found.value
        assert (found.low, found.high, found.n) == (None, None, 0)
    assert rank_by_votes([]) == {}


def test_mean_ranks_are_told_for_every_number_of_votes_up_to_the_most():
    found = rank_by_votes([game([3, 0, 0], [3, 1, 2]), game([3, 0, 0], [2, 1, 3])])
    assert {votes: (at.value, at.n) for votes, at in found.items() if at.n} == {0: (1.75, 4), 3: (2.5, 2)}
    assert list(found) == [0, 1, 2, 3]
    assert found[1].n == 0


@pytest.mark.parametrize(
    ("votes", "by_rank", "is_worst", "chance"),
    [
        ([3, 1, 0], [3, 2, 1], 1.0, 1 / 3),
        ([3, 1, 0], [1, 2, 3], 0.0, 1 / 3),
        ([2, 2, 0], [3, 1, 2], 0.5, 1 / 3),  # either could be called the most voted
        ([3, 1, 0], [2.5, 1, 2.5], 1.0, 2 / 3),  # two are worst
        ([0, 0, 0], [1, 2, 3], math.nan, math.nan),
        ([3, 1, 0], [2, 2, 2], math.nan, math.nan),
    ],
)
def test_whether_the_most_voted_is_worst_is_beside_how_often_chance_would_have_it(votes, by_rank, is_worst, chance):
    assert most_voted_is_worst(game(votes, by_rank)) == pytest.approx(is_worst, nan_ok=True)
    assert worst_by_chance(game(votes, by_rank)) == pytest.approx(chance, nan_ok=True)


def test_a_spy_that_does_better_than_the_civilians_has_a_negative_difference():
    assert spy_minus_civilians(game([0, 0, 0, 0], [1, 2, 3, 4], spy=0)) == -2
    assert spy_minus_civilians(game([0, 0, 0, 0], [1, 2, 3, 4], spy=3)) == 2


def test_games_on_one_document_are_drawn_together():
    rng = Random(0)
    rows = [(ranks([rng.random() for _ in range(5)], True), rng.randrange(5)) for _ in range(30)]
    once = [game([int(i == most) for i in range(5)], by_rank) for by_rank, most in rows]
    thrice = [RankedGame(one.votes, one.ranks, 0, i) for i, one in enumerate(once) for _ in range(3)]
    alone, together = pooled(spearman, once), pooled(spearman, thrice)
    assert together[:3] == pytest.approx(alone[:3]), "copies are no further evidence"
    assert "30 documents" in together.method
    assert alone.method == "bootstrap over games"
    of_one = [game(one.votes, one.ranks, unit="same") for one in once]
    assert pooled(spearman, of_one).value == pytest.approx(alone.value)
    assert pooled(spearman, of_one).low is None, "one document says nothing of others"


def test_a_share_in_which_all_games_agree_isnt_certain_and_a_coefficient_is_no_share():
    assert share_of([1.0] * 10, range(10)).low < 0.8
    assert mean_of([1.0] * 10, range(10)).method == "bootstrap over games"


def planted(games, strength, seed):
    """Votes that follow the ranks with a probability, else fall anywhere."""
    rng, made = Random(seed), []
    for _ in range(games):
        by_rank = list(range(1, 6))
        rng.shuffle(by_rank)
        votes = [0] * 5
        for _ in range(5):
            votes[by_rank.index(5) if rng.random() < strength else rng.randrange(5)] += 1
        made.append(game(votes, by_rank))
    return made


def test_one_game_that_tells_something_among_others_that_dont_has_no_interval():
    tells, silent = game([4, 1, 0, 0, 0], [5, 2, 1, 3, 4]), game([0, 0, 0, 0, 0], [3, 3, 3, 3, 3])
    games = [tells, *[silent] * 4]
    for found in (
        pooled(spearman, games),
        pooled(kendall, games),
        mean_within(spearman_of, games),
        mean_within(worst_by_chance, games),
    ):
        assert (found.n, found.low, found.high) == (1, None, None)
    by_votes = rank_by_votes(games)
    assert (by_votes[4].value, by_votes[4].low) == (5, None)
    assert by_votes[0].low is not None


def test_a_planted_alignment_is_found_and_its_mean_rank_rises_with_votes():
    games = planted(100, 0.3, seed=1)
    assert pooled(spearman, games).low > 0.2
    assert pooled(kendall, games).low > 0.1
    by_votes = rank_by_votes(games)
    assert by_votes[0].value < by_votes[1].value < by_votes[2].value < by_votes[3].value
    assert share_of([most_voted_is_worst(one) for one in games], range(100)).low > 0.2


def test_where_votes_fall_anywhere_the_interval_holds_zero_as_often_as_it_says(monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 400)
    within = sum(
        found.low <= 0 <= found.high
        for seed in range(40)
        for found in [pooled(spearman, planted(100, 0.0, seed), seed)]
    )
    assert within >= 35, "38 of 40 are expected; fewer than 35 in 5 of 100 such tests"
