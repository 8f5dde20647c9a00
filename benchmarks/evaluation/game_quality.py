"""The quality of one game's outputs by each measure, as ranks beside the votes that the outputs received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.ranking import read_ranking
from benchmarks.evaluation.within_games import Ordered, ranks
from spy_env import Game, Seat
from spy_env.diagnostics.proxies import hidden_words
from spy_env.diagnostics.wording import coverage
from spy_env.rewards import count_votes

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
