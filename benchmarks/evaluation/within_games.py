"""Do votes order the outputs of a game as their quality does? Counted within games, pooled over them.

Outputs of different games are never compared: their documents differ. Pure functions of plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation.intervals import Interval, bootstrap, item_share

Sums = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ordered:
    """One game's outputs: votes received, ranks (1 is best, ties share their mean), the spy's place among them.

    ``unit`` says which games belong together: those on one document are drawn together when intervals are computed.
    """

    votes: Sequence[int]
    ranks: Sequence[float]
    spy: int
    unit: Hashable


def ranks(values: Sequence[float], best_is_high: bool) -> list[float]:
    """The rank of each value, 1 the best; equal values share the mean of their ranks."""
    better = [sum((other > value) if best_is_high else (other < value) for other in values) for value in values]
    return [1 + better[i] + (values.count(value) - 1) / 2 for i, value in enumerate(map(float, values))]


def mean_of(values: Sequence[float | None], units: Sequence[Hashable], seed: int = 0) -> Interval:
    """The mean of one value a game, where it is defined; ``units`` as in ``Ordered``, one a game."""
    defined = [value for value in values if value is not None]
    rows = [(value or 0.0, float(value is not None)) for value in values]
    return _interval(rows, lambda sums: _ratio(sums[0], sums[1]), units, seed, len(defined))


def share_of(values: Sequence[float | None], units: Sequence[Hashable], seed: int = 0) -> Interval:
    """The same for a share of games, whose interval isn't a point where all games agree."""
    defined = [float(value) for value in values if value is not None]
    return item_share(defined, seed) if set(defined) in ({0.0}, {1.0}) else mean_of(values, units, seed)


def mean_within(of: Callable[[Ordered], float | None], games: Sequence[Ordered], seed: int = 0) -> Interval:
    """The mean over games of what ``of`` tells of each, where it is defined."""
    return mean_of([of(game) for game in games], _units(games), seed)


def spearman(games: Sequence[Ordered], seed: int = 0) -> Interval:
    """Spearman's coefficient of votes received and rank, within games, pooled.

    Both are ranked within each game (ties share their mean) and measured from the game's own mean; covariances and
    variances are summed over the games that order both. Positive: who receives more votes is ranked worse.
    """
    return _pooled(_moments, games, seed)


def spearman_of(game: Ordered) -> float | None:
    """One game's coefficient; None where all outputs have equal votes, or equal ranks."""
    covariance, votes, quality = _moments(game)
    return covariance / sqrt(votes * quality) if votes * quality else None


def kendall(games: Sequence[Ordered], seed: int = 0) -> Interval:
    """Kendall's tau-b of votes received and rank; only pairs of outputs of one game count, and all of them are pooled.

    Concordant minus discordant pairs, over the geometric mean of the pairs untied in votes and those untied in rank,
    in the games that order both.
    """
    return _pooled(_pairs, games, seed)


def kendall_of(game: Ordered) -> float | None:
    """One game's tau-b; None where all outputs have equal votes, or equal ranks."""
    agreed, votes_differ, ranks_differ = _pairs(game)
    return agreed / sqrt(votes_differ * ranks_differ) if votes_differ * ranks_differ else None


def rank_by_votes(games: Sequence[Ordered], seed: int = 0) -> Mapping[int, Interval]:
    """The mean rank of outputs that received 0, 1, ... votes, up to the most that any did.

    ``n`` counts outputs; the interval resamples games.
    """
    seen = range(max((votes for game in games for votes in game.votes), default=-1) + 1)
    found = {}
    for votes in seen:
        rows = [_total(game, votes) for game in games]
        outputs = int(sum(count for _, count in rows))
        found[votes] = _interval(rows, lambda sums: _ratio(sums[0], sums[1]), _units(games), seed, outputs)
    return found


def spy_rank(game: Ordered) -> float:
    """The spy's rank."""
    return game.ranks[game.spy]


def spy_minus_civilians(game: Ordered) -> float:
    """By how many ranks the spy's output is worse than the civilians' mean; negative where it is better."""
    civilians = [rank for place, rank in enumerate(game.ranks) if place != game.spy]
    return game.ranks[game.spy] - sum(civilians) / len(civilians)


def most_voted_is_worst(game: Ordered) -> float | None:
    """Whether the most-voted output is ranked worst; of several most-voted ones, the share that is.

    None without votes, and where all outputs have equal ranks.
    """
    most = max(game.votes)
    if not most or len(set(game.ranks)) == 1:
        return None
    voted = [rank for votes, rank in zip(game.votes, game.ranks, strict=True) if votes == most]
    return voted.count(max(game.ranks)) / len(voted)


def worst_by_chance(game: Ordered) -> float | None:
    """How often an output drawn at random would be ranked worst, in the same games."""
    if most_voted_is_worst(game) is None:
        return None
    return game.ranks.count(max(game.ranks)) / len(game.ranks)


def _pooled(of: Callable[[Ordered], tuple[float, float, float]], games: Sequence[Ordered], seed: int) -> Interval:
    found = [of(game) for game in games]
    rows = [row if row[1] and row[2] else (0.0, 0.0, 0.0) for row in found]  # all equal: nothing to agree on
    told = sum(any(row) for row in rows)
    return _interval(rows, lambda sums: _ratio(sums[0], sqrt(sums[1] * sums[2])), _units(games), seed, told)


def _moments(game: Ordered) -> tuple[float, float, float]:
    by_votes, middle = ranks(game.votes, best_is_high=False), (len(game.votes) + 1) / 2
    apart = [(votes - middle, rank - middle) for votes, rank in zip(by_votes, game.ranks, strict=True)]
    return sum(v * r for v, r in apart), sum(v * v for v, _ in apart), sum(r * r for _, r in apart)


def _pairs(game: Ordered) -> tuple[float, float, float]:
    agreed = votes_differ = ranks_differ = 0
    for (v, r), (w, s) in combinations(zip(game.votes, game.ranks, strict=True), 2):
        votes_differ += v != w
        ranks_differ += r != s
        agreed += ((v > w) - (v < w)) * ((r > s) - (r < s))
    return float(agreed), float(votes_differ), float(ranks_differ)


def _total(game: Ordered, votes: int) -> tuple[float, float]:
    of = [rank for rank, received in zip(game.ranks, game.votes, strict=True) if received == votes]
    return sum(of), float(len(of))


def _ratio(above: float, below: float) -> float:
    return above / below if below else float("nan")


def _units(games: Sequence[Ordered]) -> list[Hashable]:
    return [game.unit for game in games]


def _interval(
    rows: Sequence[tuple[float, ...]], of: Callable[[Sums], float], units: Sequence[Hashable], seed: int, n: int
) -> Interval:
    """A statistic of the games' summed rows, with the interval from drawing whole games, or whole documents' games.

    Rows of zeros tell nothing; where only one unit tells something, there is no interval.
    """
    places = {unit: place for place, unit in enumerate(dict.fromkeys(units))}
    summed = np.zeros((len(places), len(rows[0]) if rows else 1))
    for unit, row in zip(units, rows, strict=True):
        summed[places[unit]] += row
    found = bootstrap(lambda drawn: of(summed[drawn].sum(axis=0)), len(places), seed)
    if (summed != 0).any(axis=1).sum() < 2:
        found = found._replace(low=None, high=None)
    whole = "games" if len(places) == len(units) else f"the {len(places)} documents, each with all its games"
    return found._replace(n=n, method=f"bootstrap over {whole}")
