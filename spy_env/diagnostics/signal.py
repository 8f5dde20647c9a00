"""Signal: do the texts of a game tell the spy from the civilians at all? Where they don't, no vote can mean anything.

Two detectors that no voter could be judge it: an oracle that knows the hidden words, and one that counts what the others say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spy_env.diagnostics.estimates import Estimate, average, share
from spy_env.diagnostics.probes import MASK, ROLE, count_cues, credit, highest
from spy_env.diagnostics.proxies import hidden_words
from spy_env.diagnostics.shortcuts import LEVEL, chance_of
from spy_env.diagnostics.shown import Shown, first_of_each_seed, shown
from spy_env.game import Game
from spy_env.masking import count_units
from spy_env.seats import Seat
from spy_env.wording import content_words, copied_share, coverage, shingles

NAME = "signal/none"
FEWEST = 30  # games; in fewer an oracle that is right half the time can look like chance; our choice
RUN = 5  # words of a run that counts as copied; our choice

ORACLE, OTHERS = "oracle of hidden words", "words that others share"


@dataclass(frozen=True, slots=True)
class Signal:
    """What texts hold: a mean per role for each measure, and the accuracy of each detector; chance and p-value are the oracle's."""

    games: int
    measures: Mapping[str, Mapping[str, Estimate]]  # by measure and role
    detectors: Mapping[str, Estimate]
    chance: float
    p_value: float

    @property
    def alarm(self) -> str:
        """The warning's text where the oracle can't be told from chance; empty otherwise, and for few games."""
        if self.games < FEWEST or self.p_value < LEVEL:
            return ""
        return (
            f"an oracle that knows the hidden words finds the spy in {self.detectors[ORACLE]} of {self.games} games (chance "
            f"{self.chance:.3f}): the texts don't tell the spy from the others, so no vote can mean anything"
        )

    @property
    def metrics(self) -> dict[str, float]:
        """The values by name, with the role where there is one."""
        means = {f"{name}/{role}": one.value for name, roles in self.measures.items() for role, one in roles.items()}
        return means | {name: accuracy.value for name, accuracy in self.detectors.items()}


def signal(games: Iterable[Game]) -> Signal | None:
    """Measure the performances of finished games, one per seed; None without a game whose hidden part has words of its own."""
    looks = [(game, shown(game), words) for game in first_of_each_seed(games) if (words := hidden_words(game))]
    if not looks:
        return None
    named = {
        ORACLE: [_fewest({seat: coverage(text, words) for seat, text in texts.items()}) for _, texts, words in looks],
        OTHERS: [highest(_lacking(texts)) for _, texts, _ in looks],
    }
    played = [game for game, _, _ in looks]
    detectors = {
        name: share([credit(some, game) for some, game in zip(judged, played, strict=True)], [1] * len(played))
        for name, judged in named.items()
    }
    telling = [(game, some) for game, some in zip(played, named[ORACLE], strict=True) if len(some) < len(game.players)]
    p_value = chance_of(
        [game.spy in some for game, some in telling], [len(some) / len(game.players) for game, some in telling]
    )
    chance = sum(1 / len(game.players) for game in played) / len(played)
    return Signal(len(looks), _by_role(looks), detectors, chance, p_value)


def _by_role(looks: Sequence[tuple[Game, Shown, set[str]]]) -> dict[str, dict[str, Estimate]]:
    measured = [_measured(*look) for look in looks]
    return {
        name: {role: average([one[name][role] for one in measured]) for role in by_role}
        for name, by_role in measured[0].items()
    }


def text_measures(game: Game) -> dict[str, dict[str, float]]:
    """Return the mean of each measure over a game's civilians, and its spy's value. The hidden part has words of its own."""
    return _measured(game, shown(game), hidden_words(game))


def _measured(game: Game, texts: Shown, words: set[str]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "civilian": sum(measure(texts[seat]) for seat in texts if seat != game.spy) / (len(texts) - 1),
            "spy": measure(texts[game.spy]),
        }
        for name, measure in _measures(game, words).items()
    }


def _measures(game: Game, words: set[str]) -> dict[str, Callable[[str], float]]:
    document = game.document.text
    known, runs = content_words(document), shingles(document, RUN)
    return {
        "overlap with the document": lambda text: _share_within(content_words(text), known),
        "hidden words said": lambda text: coverage(text, words),
        "copied runs of five words": lambda text: copied_share(text, runs, RUN),
        "length": lambda text: float(count_units(text)),
        "mentions of the game": lambda text: float(count_cues(ROLE, text, document) > 0),
        "traces of the mask": lambda text: float(count_cues(MASK, text, document) > 0),
    }


def _share_within(words: set[str], known: set[str]) -> float:
    return len(words & known) / len(words) if words else 0.0


def _fewest(values: Mapping[Seat, float]) -> Sequence[Seat]:
    return highest({seat: -value for seat, value in values.items()})


def _lacking(texts: Shown) -> dict[Seat, float]:
    """Count, for each player, the words that at least half of the others say and it doesn't."""
    said = {seat: content_words(text) for seat, text in texts.items()}
    lacking = {}
    for seat, own in said.items():
        others = [words for other, words in said.items() if other != seat]
        agreed = {word for words in others for word in words if 2 * sum(word in some for some in others) >= len(others)}
        lacking[seat] = float(len(agreed - own))
    return lacking
