"""Do votes order the outputs of a game as their quality does? Ranks by each measure, compared within games, pooled over them.

An undefined number is nan, such as the coefficient of a game in which all outputs have equal votes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import isnan, nan, sqrt
from typing import Any

import numpy as np

from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.intervals import Interval, bootstrap, item_share
from benchmarks.evaluation.questions import read_ranking
from benchmarks.evaluation.rouge_scores import Metric
from spy_env import Game, Seat
from spy_env.diagnostics.proxies import hidden_words
from spy_env.rewards import count_votes
from spy_env.wording import coverage

# Quality of outputs, by a measure.

Values = dict[Seat, float]


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of quality: ``values`` gives each output's, high is good, or the reason why a game has none.

    ``scored``: the values are shares or scores from 0 to 1, which mean something beside their order.
    """

    name: str
    values: Callable[[Game], Values | str]
    scored: bool = True


def judges_ranking(games: Sequence[Game], orders: Sequence[list[Seat]], answers: Sequence[Answer]) -> Measure:
    """Take the judge's answer about each game, whose outputs it saw in ``orders``. Equal texts share the mean of their ranks."""
    shown = {id(game): (order, answer) for game, order, answer in zip(games, orders, answers, strict=True)}

    def values(game: Game) -> Values | str:
        order, answer = shown[id(game)]
        if answer.failed:
            return "judge failed"
        if (numbers := read_ranking(answer.said, len(order))) is None:
            return "unreadable ranking"
        value = {order[number - 1]: -float(rank) for rank, number in enumerate(numbers, start=1)}
        texts = {seat: performance.text for seat, performance in game.performances().items()}
        same = {text: [value[seat] for seat in texts if texts[seat] == text] for text in texts.values()}
        return {seat: sum(same[text]) / len(same[text]) for seat, text in texts.items()}

    return Measure("judge's ranking", values, scored=False)


def rouge_to_summary(metric: Metric, summaries: Mapping[str, str]) -> Measure:
    """Score each output against the summary that the data set has of the document; ``summaries`` are by whole document."""

    def values(game: Game) -> Values | str:
        if not (summary := summary_of(game, summaries)):
            return "document without a summary"
        return {seat: metric.score(performance.text, summary) for seat, performance in game.performances().items()}

    return Measure(f"{metric.name} to the document's summary", values)


def summary_of(game: Game, summaries: Mapping[str, str]) -> str:
    """Find the summary of a game's document, which may have been shortened from its end; empty where there is none."""
    document = game.document.text
    return next((summary for text, summary in summaries.items() if summary and text.startswith(document)), "")


def _hidden_words_held(game: Game) -> Values | str:
    """Take the share that each output holds of the content words that only the hidden span has."""
    if not (words := hidden_words(game)):
        return "nothing hidden that stands nowhere else"
    return {seat: coverage(performance.text, words) for seat, performance in game.performances().items()}


HIDDEN_WORDS_HELD = Measure("hidden words held", _hidden_words_held)


# Votes and ranks of each game.


@dataclass(frozen=True, slots=True)
class RankedGame:
    """One game's outputs: votes received, ranks (1 is best, ties share their mean), the spy's place among them.

    Games of one ``unit``, those on one document, are drawn together when intervals are computed.
    """

    votes: Sequence[int]
    ranks: Sequence[float]
    spy: int
    unit: Hashable


@dataclass(slots=True)
class Measured:
    """The games of one set by one measure, and how many have no measure for which reason."""

    measure: Measure
    games: list[RankedGame] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)  # beside ``games``, in the order of seats
    excluded: Counter[str] = field(default_factory=Counter)
    outcomes: list[dict[str, Any] | str] = field(default_factory=list)  # of every game; the reason where it has none


def measured(games: Sequence[Game], measure: Measure) -> Measured:
    """Measure and rank every game's outputs."""
    result = Measured(measure)
    for game in games:
        values = measure.values(game)
        if isinstance(values, str):
            result.excluded[values] += 1
            result.outcomes.append(values)
            continue
        by_seat = [values[seat] for seat in game.players]
        by_rank = ranks(by_seat, best_is_high=True)
        votes = list(votes_received(game).values())
        result.games.append(RankedGame(votes, by_rank, game.players.index(game.spy), game.document.text))
        result.values.append(by_seat)
        outcome: dict[str, Any] = {"ranks": dict(zip(game.players, by_rank, strict=True))}
        result.outcomes.append(outcome | {"values": values} if measure.scored else outcome)
    return result


def votes_received(game: Game) -> dict[Seat, int]:
    """Count the votes that each player received; a referee's counts as one, however many referees there are."""
    return {seat: int(votes) for seat, votes in count_votes(game.votes(), game.players).received.items()}


def ranks(values: Sequence[float], best_is_high: bool) -> list[float]:
    """Rank values, 1 the best; equal ones share the mean of their ranks."""
    better = [sum((other > value) if best_is_high else (other < value) for other in values) for value in values]
    return [1 + better[i] + (values.count(value) - 1) / 2 for i, value in enumerate(map(float, values))]


# Statistics of one game.

Moments = tuple[float, float, float]
"""A covariance of votes and ranks, the variance of votes and that of ranks, or counts in their place."""


def spearman(game: RankedGame) -> Moments:
    """Return Spearman's moments: both are ranked within the game (ties share their mean), about the game's mean.

    Positive: who receives more votes is ranked worse.
    """
    by_votes, middle = ranks(game.votes, best_is_high=False), (len(game.votes) + 1) / 2
    centred = [(votes - middle, rank - middle) for votes, rank in zip(by_votes, game.ranks, strict=True)]
    return sum(v * r for v, r in centred), sum(v * v for v, _ in centred), sum(r * r for _, r in centred)


def kendall(game: RankedGame) -> Moments:
    """Return the counts of Kendall's tau-b: concordant minus discordant pairs, pairs untied in votes, and in rank."""
    agreeing = votes_differ = ranks_differ = 0
    for (v, r), (w, s) in combinations(zip(game.votes, game.ranks, strict=True), 2):
        votes_differ += v != w
        ranks_differ += r != s
        agreeing += ((v > w) - (v < w)) * ((r > s) - (r < s))
    return float(agreeing), float(votes_differ), float(ranks_differ)


def coefficient(moments: Sequence[float]) -> float:
    """Divide the covariance by the geometric mean of the variances; nan where votes or ranks are all equal."""
    covariance, votes, quality = moments
    return covariance / sqrt(votes * quality) if votes * quality else nan


def spy_minus_civilians(game: RankedGame) -> float:
    """Return by how many ranks the spy's output is worse than the civilians' mean; negative where it is better."""
    civilians = [rank for place, rank in enumerate(game.ranks) if place != game.spy]
    return game.ranks[game.spy] - sum(civilians) / len(civilians)


def most_voted_is_worst(game: RankedGame) -> float:
    """Return the share of the most-voted outputs, usually one, that is ranked worst.

    nan without votes, and where all outputs have equal ranks.
    """
    most = max(game.votes)
    if not most or len(set(game.ranks)) == 1:
        return nan
    voted = [rank for votes, rank in zip(game.votes, game.ranks, strict=True) if votes == most]
    return voted.count(max(game.ranks)) / len(voted)


def worst_by_chance(game: RankedGame) -> float:
    """Return how often an output drawn at random would be ranked worst, in the same games."""
    return nan if isnan(most_voted_is_worst(game)) else game.ranks.count(max(game.ranks)) / len(game.ranks)


# Numbers over games, with intervals.


def pooled(moments: Callable[[RankedGame], Moments], games: Sequence[RankedGame], seed: int = 0) -> Interval:
    """Return the coefficient of moments summed over the games that order both votes and ranks."""
    rows = [row if row[1] and row[2] else (0.0, 0.0, 0.0) for row in map(moments, games)]
    return _interval(coefficient, rows, [game.unit for game in games], seed, sum(map(any, rows)))


def mean_of(values: Sequence[float], units: Sequence[Hashable], seed: int = 0) -> Interval:
    """Return the mean of one value per game, where it is defined; ``units`` as in ``RankedGame``, one per game."""
    rows = [(0.0, 0.0) if isnan(value) else (value, 1.0) for value in values]
    return _mean(rows, units, seed)


def mean_within(of: Callable[[RankedGame], float], games: Sequence[RankedGame], seed: int = 0) -> Interval:
    """Return the mean over games of a statistic of each, where it is defined."""
    return mean_of([of(game) for game in games], [game.unit for game in games], seed)


def share_of(values: Sequence[float], units: Sequence[Hashable], seed: int = 0) -> Interval:
    """Return a share of games: a mean whose interval isn't a point where all games agree."""
    defined = [float(value) for value in values if not isnan(value)]
    return item_share(defined, seed) if set(defined) in ({0.0}, {1.0}) else mean_of(values, units, seed)


def rank_by_votes(games: Sequence[RankedGame], seed: int = 0) -> Mapping[int, Interval]:
    """Return the mean rank of outputs that received 0, 1, ... votes, up to the most that any did; ``n`` counts outputs."""
    most = max((votes for game in games for votes in game.votes), default=-1)
    by_votes = {}
    for votes in range(most + 1):
        rows = []
        for game in games:
            received = [rank for rank, count in zip(game.ranks, game.votes, strict=True) if count == votes]
            rows.append((sum(received), float(len(received))))
        by_votes[votes] = _mean(rows, [game.unit for game in games], seed)
    return by_votes


def _mean(rows: Sequence[tuple[float, float]], units: Sequence[Hashable], seed: int) -> Interval:
    """Divide the summed totals by the summed counts."""

    def ratio(sums: Sequence[float]) -> float:
        return sums[0] / sums[1] if sums[1] else nan

    return _interval(ratio, rows, units, seed, int(sum(count for _, count in rows)))


def _interval(
    statistic: Callable[[Any], float],
    rows: Sequence[tuple[float, ...]],
    units: Sequence[Hashable],
    seed: int,
    n: int,
) -> Interval:
    """Return a statistic of the games' summed rows; its interval draws whole games, or whole documents' games.

    A row of zeros is no evidence; where only one unit has any, there is no interval.
    """
    places = {unit: place for place, unit in enumerate(dict.fromkeys(units))}
    sums = np.zeros((len(places), len(rows[0]) if rows else 1))
    for unit, row in zip(units, rows, strict=True):
        sums[places[unit]] += row
    interval = bootstrap(lambda drawn: statistic(sums[drawn].sum(axis=0)), len(places), seed)
    if (sums != 0).any(axis=1).sum() < 2:
        interval = interval._replace(low=None, high=None)
    whole = "games" if len(places) == len(units) else f"the {len(places)} documents, each with all its games"
    return interval._replace(n=n, method=f"bootstrap over {whole}")
