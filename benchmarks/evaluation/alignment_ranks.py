"""Do votes order the outputs of a game as their quality does? Ranks by each measure, counted within games, pooled over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.intervals import Interval, bootstrap, item_share
from benchmarks.evaluation.questions import read_ranking
from spy_env import Game, Seat
from spy_env.diagnostics.proxies import hidden_words
from spy_env.diagnostics.wording import coverage
from spy_env.rewards import count_votes

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


Values = dict[Seat, float]


@dataclass(frozen=True, slots=True)
class Measure:
    """A way to tell the quality of a game's outputs; ``name`` says which variant.

    ``values`` gives each output's quality, high is good, or says why this game has none. ``scored``: these are shares
    or scores from 0 to 1, which tell something beside their order.
    """

    name: str
    values: Callable[[Game], Values | str]
    scored: bool = True


def judges_ranking(games: Sequence[Game], orders: Sequence[list[Seat]], answers: Sequence[Answer]) -> Measure:
    """What a judge said of each game, shown in ``orders``. Equal texts share the mean of their ranks."""
    told = {id(game): (order, answer) for game, order, answer in zip(games, orders, answers, strict=True)}

    def values(game: Game) -> Values | str:
        order, answer = told[id(game)]
        if answer.failed:
            return "judge failed"
        if (numbers := read_ranking(answer.said, len(order))) is None:
            return "unreadable ranking"
        place = {order[number - 1]: -float(rank) for rank, number in enumerate(numbers, start=1)}
        said = {seat: performance.text for seat, performance in game.performances().items()}
        same = {text: [place[seat] for seat in said if said[seat] == text] for text in said.values()}
        return {seat: sum(same[text]) / len(same[text]) for seat, text in said.items()}

    return Measure("judge's ranking", values, scored=False)


def rouge_to_summary(
    variant: str, score: Callable[[str, Sequence[str]], float], summary_of: Callable[[Game], str]
) -> Measure:
    """A ROUGE score of each output to the summary that the data set has of the document."""

    def values(game: Game) -> Values | str:
        if not (summary := summary_of(game)):
            return "document without a summary"
        return {seat: score(performance.text, [summary]) for seat, performance in game.performances().items()}

    return Measure(f"{variant} to the document's summary", values)


def hidden_words_held() -> Measure:
    """The share that each output holds of the content words that only the hidden span has."""

    def values(game: Game) -> Values | str:
        if not (words := hidden_words(game)):
            return "nothing hidden that stands nowhere else"
        return {seat: coverage(performance.text, words) for seat, performance in game.performances().items()}

    return Measure("hidden words held", values)


@dataclass(slots=True)
class Measured:
    """The games of one set under one measure: what is known of each, and how many have no measure and why."""

    measure: Measure
    games: list[Ordered] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)  # beside ``games``, in the order of seats
    excluded: Counter[str] = field(default_factory=Counter)
    outcomes: list[dict[str, Any] | str] = field(default_factory=list)  # of every game; why, where it has no measure


def measured(games: Sequence[Game], measure: Measure) -> Measured:
    """Every game's outputs by one measure."""
    found = Measured(measure)
    for game in games:
        values = measure.values(game)
        if isinstance(values, str):
            found.excluded[values] += 1
            found.outcomes.append(values)
            continue
        by_seat = [values[seat] for seat in game.players]
        placed = ranks(by_seat, best_is_high=True)
        votes = list(votes_received(game).values())
        found.games.append(Ordered(votes, placed, game.players.index(game.spy), game.document.text))
        found.values.append(by_seat)
        found.outcomes.append(
            {"ranks": dict(zip(game.players, placed, strict=True)), **({"values": values} if measure.scored else {})}
        )
    return found


def votes_received(game: Game) -> dict[Seat, int]:
    """How many votes each player received; a referee's counts as one, however many referees there are."""
    return {seat: int(votes) for seat, votes in count_votes(game.votes(), game.players).received.items()}


class Summaries:
    """Finds the summary of a game's document, which may have been shortened from its end."""

    BEGINNING = 100  # characters that a document is first looked up by

    def __init__(self, summaries: Mapping[str, str]) -> None:
        """From whole documents to their summaries."""
        self._by_beginning: dict[str, list[tuple[str, str]]] = {}
        for text, summary in summaries.items():
            if summary:
                self._by_beginning.setdefault(text[: self.BEGINNING], []).append((text, summary))

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._by_beginning)

    def of(self, game: Game) -> str:
        """The summary; empty where there is none."""
        played = game.document.text
        candidates = self._by_beginning.get(played[: self.BEGINNING], [])
        return next((summary for text, summary in candidates if text.startswith(played)), "")
