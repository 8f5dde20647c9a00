"""Detectors that look at one thing alone, and learn from each game only after they have judged it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import log
from typing import Protocol

from spy_env.diagnostics.shown import Shown
from spy_env.game import Game
from spy_env.masking import count_units
from spy_env.seats import Seat
from spy_env.wording import copied_share, shingles, words

MASK, ROLE, REFUSAL = "mask", "role", "refusal"

# Our lists, made by reading what small models say with a masked copy. Each alternative is one cue.
CUES: Mapping[str, tuple[str, ...]] = {
    MASK: (
        r"(?<!\S)\*{2,3}(?!\S)",  # asterisks that set nothing in bold type
        r"\*{4,}",
        r"[\[(<（【](?:\.{3}|…+|\s*(?:hidden|masked|missing|redacted|blank(?:ed)?|omitted|removed|unknown|缺失|隐藏|省略)\s*)[\])>）】]",
        r"_{4,}",
        r"\bmissing\b",
        r"\bredacted\b",
        r"\bmasked\b",
        r"\basterisks?\b",
        r"\bblanked\b",
        r"\bomitted\b",
        r"\bobscured\b",
        r"\bincomplete\b",
        r"\bnot (?:visible|shown|provided|available)\b",
        r"\b(?:cut|blacked) out\b",
        r"\bhidden (?:text|part|passage|section|portion|words?)\b",
        r"缺失|缺少|残缺",
        r"遮[挡盖住蔽]|屏蔽|打码",
        r"隐[藏去]",
        r"星号",
        r"省略",
        r"不完整",
        r"空白",
    ),
    ROLE: (
        r"\bas (?:the|a) (?:spy|civilian)\b",
        r"\bi(?:['’]m| am| was) (?:not )?(?:the|a) (?:spy|civilian)\b",
        r"\b(?:spy|spies)\b",
        r"\bcivilians?\b",
        r"\bmy (?:copy|version) (?:of|is)\b",
        r"\bothers? players?\b|\bplayer \d+\b",
        r"卧底|间谍",
        r"平民",
        r"我的(?:文档|版本|副本)",
        r"[其别]他玩家",
    ),
    REFUSAL: (
        r"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b",
        r"\bi(?:['’]m| am) (?:sorry|unable|not able|an? (?:ai|language model))\b",
        r"\bi (?:apologi[sz]e|regret)\b",
        r"\bi (?:can['’]?t|can ?not|could(?: not|n['’]t)|won['’]?t|will not) (?:\w+ ){0,2}"
        r"(?:summari[sz]e|provide|write|answer|continue|complete|assist|help|determine|create|fulfil+|do)\b",
        r"\b(?:impossible|not possible) to (?:summari[sz]e|determine|say|tell|answer|complete)\b",
        r"\bnot enough (?:information|context)\b|\binsufficient information\b",
        r"抱歉|对不起|很遗憾",
        r"作为(?:一个|一名)?(?:AI|人工智能|语言模型)",
        r"我(?:无法|不能|没办法)",
        r"无法(?:总结|回答|确定|提供|完成|继续)",
        r"信息不足",
    ),
}
_COMPILED = {kind: [re.compile(cue, re.IGNORECASE) for cue in cues] for kind, cues in CUES.items()}


@lru_cache(maxsize=2048)  # windows of games overlap
def count_cues(kind: str, text: str, document: str) -> int:
    """Count the cues of a kind in a text, without cues that the document uses itself."""
    found = ((len(cue.findall(text)), cue) for cue in _COMPILED[kind])
    return sum(count for count, cue in found if count and not cue.search(document))


Measure = Callable[[Game, Shown], Mapping[Seat, float]]
FEWEST = 2  # games that must have used a word before it counts; our choice
PRIOR = 4  # weight, in texts, of a word's share over all texts; our choice


class Probe(Protocol):
    """A way to find the spy without reading for content."""

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """Name the players who stand out; all or none if nobody does."""

    def learn(self, game: Game, texts: Shown) -> None:
        """Learn from the spy of a game that was judged."""


class Most:
    """Names the player with most of something that only a spy should have. Learns nothing."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """See ``Probe``."""
        return highest(self._measure(game, texts))

    def learn(self, game: Game, texts: Shown) -> None:
        """Learn nothing."""


class MostOrLeast:
    """Names the player with most of something, or with least, whichever was right more often so far."""

    def __init__(self, measure: Measure) -> None:
        self._measure, self._lead = measure, 0.0

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """See ``Probe``; name nobody while both were right as often."""
        most, least = self._both(game, texts)
        return most if self._lead > 0 else least if self._lead < 0 else ()

    def learn(self, game: Game, texts: Shown) -> None:
        """Count which of the two was right."""
        most, least = self._both(game, texts)
        self._lead += credit(most, game) - credit(least, game)

    def _both(self, game: Game, texts: Shown) -> tuple[Collection[Seat], Collection[Seat]]:
        measured = self._measure(game, texts)
        return highest(measured), highest({seat: -value for seat, value in measured.items()})


class SeatHabit:
    """Names the number that was the spy's most often so far."""

    def __init__(self) -> None:
        self._spies: Counter[Seat] = Counter()

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """See ``Probe``."""
        return highest({seat: self._spies[seat] for seat in game.players})

    def learn(self, game: Game, texts: Shown) -> None:
        """Count the spy's number."""
        self._spies[game.spy] += 1


class Vocabulary:
    """Naive Bayes over the words of a text, whatever the document: words of spies against words of civilians.

    A text's score is the sum of log P(word | spy) / P(word | civilian) over its distinct words, each share of texts drawn
    toward the word's share of all texts, so that a rare word and a long text say little.
    """

    def __init__(self) -> None:
        self._texts: Counter[str] = Counter()
        self._with: dict[str, Counter[str]] = {"spy": Counter(), "civilian": Counter()}
        self._games: Counter[str] = Counter()

    def names(self, game: Game, texts: Shown) -> Collection[Seat]:
        """See ``Probe``."""
        if not self._texts:
            return ()
        return highest({seat: sum(map(self._weight, sorted(set(words(text))))) for seat, text in texts.items()})

    def learn(self, game: Game, texts: Shown) -> None:
        """Count the words of each text once."""
        by_seat = {seat: set(words(text)) for seat, text in texts.items()}
        for seat, used in by_seat.items():
            self._texts[game.role(seat)] += 1
            self._with[game.role(seat)].update(used)
        self._games.update(set().union(*by_seat.values()))

    def _weight(self, word: str) -> float:
        if self._games[word] < FEWEST:
            return 0.0
        overall = sum(count[word] for count in self._with.values()) / self._texts.total()
        by_role = {
            role: (count[word] + PRIOR * overall) / (self._texts[role] + PRIOR) for role, count in self._with.items()
        }
        return log(by_role["spy"] / by_role["civilian"])


def highest(measured: Mapping[Seat, float]) -> Sequence[Seat]:
    """Return the players with the highest value."""
    top = max(measured.values())
    return [seat for seat, value in measured.items() if value >= top - 1e-12]  # rounding errors must not break a tie


def credit(named: Collection[Seat], game: Game) -> float:
    """Return the chance that a random vote for one of ``named`` is right; nobody named means all players."""
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
    """Yield the players that a fresh probe names in each game; it has learned from the games before it alone."""
    for game, texts in games:
        yield probe.names(game, texts)
        probe.learn(game, texts)
