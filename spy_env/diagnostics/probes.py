"""Detectors that look at one thing only, and learn from each game after they have judged it.

A probe sees what the players show, and the document; never votes. It names the players who stand out, all that do so
equally; who the spy is it is told afterwards, so nothing that it says of a game comes from that game.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from math import log
from typing import Protocol

from spy_env.diagnostics.cues import MASK, REFUSAL, ROLE, count_cues
from spy_env.diagnostics.shown import Shown
from spy_env.diagnostics.wording import copied_share, shingles, words
from spy_env.game import Game
from spy_env.masking import count_units
from spy_env.seats import Seat

Measure = Callable[[Game, Shown], Mapping[Seat, float]]
FEWEST = 2  # games that must have used a word before it says anything; our choice
PRIOR = 4  # texts that a word's share of all texts counts for; our choice


class Probe(Protocol):
    """One way to find the spy without reading for content."""

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """The players who stand out; all or none of them where nobody does."""

    def learn(self, game: Game, texts: Shown) -> None:
        """Take in who the spy of a judged game was."""


class Most:
    """Names whoever has most of something that only a spy should have. Learns nothing."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """As a probe does."""
        return _highest(self._measure(game, texts))

    def learn(self, game: Game, texts: Shown) -> None:
        """Nothing to learn."""


class MostOrLeast:
    """Names whoever has most of something, or least, whichever was right more often so far."""

    def __init__(self, measure: Measure) -> None:
        self._measure, self._lead = measure, 0.0

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """As a probe does; nobody while both were right as often."""
        most, least = self._both(game, texts)
        return most if self._lead > 0 else least if self._lead < 0 else ()

    def learn(self, game: Game, texts: Shown) -> None:
        """Count which of the two was right."""
        most, least = self._both(game, texts)
        self._lead += credit(most, game) - credit(least, game)

    def _both(self, game: Game, texts: Shown) -> tuple[Collection[Seat], Collection[Seat]]:
        measured = self._measure(game, texts)
        return _highest(measured), _highest({seat: -value for seat, value in measured.items()})


class SeatHabit:
    """Names the number that was the spy's most often so far."""

    def __init__(self) -> None:
        self._spies: Counter[Seat] = Counter()

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """As a probe does."""
        return _highest({seat: self._spies[seat] for seat in game.players})

    def learn(self, game: Game, texts: Shown) -> None:
        """Count the spy's number."""
        self._spies[game.spy] += 1


class Vocabulary:
    """Naive Bayes over the words that a text holds, whatever the document: which are said by spies, which by civilians.

    A text's score is the sum of log P(word | spy) / P(word | civilian) over its distinct words, each share of texts drawn
    toward the word's share of all texts, so that a rare word and a long text say little.
    """

    def __init__(self) -> None:
        self._texts: Counter[str] = Counter()
        self._with: dict[str, Counter[str]] = {"spy": Counter(), "civilian": Counter()}
        self._games: Counter[str] = Counter()

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """As a probe does."""
        if not self._texts:
            return ()
        return _highest({seat: sum(map(self._weight, sorted(set(words(text))))) for seat, text in texts.items()})

    def learn(self, game: Game, texts: Shown) -> None:
        """Count the words of each text once."""
        said = {seat: set(words(text)) for seat, text in texts.items()}
        for seat, own in said.items():
            self._texts[game.role(seat)] += 1
            self._with[game.role(seat)].update(own)
        self._games.update(set().union(*said.values()))

    def _weight(self, word: str) -> float:
        if self._games[word] < FEWEST:
            return 0.0
        overall = sum(count[word] for count in self._with.values()) / self._texts.total()
        by_role = {
            role: (count[word] + PRIOR * overall) / (self._texts[role] + PRIOR) for role, count in self._with.items()
        }
        return log(by_role["spy"] / by_role["civilian"])


def _highest(measured: Mapping[Seat, float]) -> Collection[Seat]:
    top = max(measured.values())
    return [seat for seat, value in measured.items() if value >= top - 1e-12]  # rounding errors don't break a tie


def credit(named: Collection[Seat], game: Game) -> float:
    """How right it is to vote for one of ``named`` at random; to name nobody is to vote for any player."""
    among = named or game.players
    return (game.spy in among) / len(among)


def _length(game: Game, texts: Shown) -> dict[Seat, float]:
    return {seat: float(count_units(text)) for seat, text in texts.items()}


def _copied(game: Game, texts: Shown) -> dict[Seat, float]:
    source = shingles(game.document.text)
    return {seat: copied_share(text, source) for seat, text in texts.items()}


def _cues(kind: str) -> Measure:
    return lambda game, texts: {seat: float(count_cues(kind, text, game.document.text)) for seat, text in texts.items()}


PROBES: Mapping[str, Callable[[], Probe]] = {
    "length": lambda: MostOrLeast(_length),
    "position": SeatHabit,
    "mask": lambda: Most(_cues(MASK)),  # mask symbols, and talk of missing text
    "role": lambda: Most(_cues(ROLE)),
    "copying": lambda: MostOrLeast(_copied),
    "refusal": lambda: Most(_cues(REFUSAL)),
    "vocabulary": Vocabulary,
}


def judged(probe: Probe, games: Iterable[tuple[Game, Shown]]) -> Iterator[Collection[Seat]]:
    """Whom a fresh probe names in each game, in order; it has learned from those before and no other."""
    for game, texts in games:
        yield probe.names(game, texts)
        probe.learn(game, texts)
