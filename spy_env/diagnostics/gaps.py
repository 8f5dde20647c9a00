"""How spies' performances differ from civilians' in length, copying and diversity, and how alike civilians are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from spy_env.diagnostics.estimates import Estimate, average, share
from spy_env.diagnostics.shown import Shown, copies, over, shown
from spy_env.diagnostics.wording import copied_share, distinct_2, likeness, shingles
from spy_env.game import Game
from spy_env.masking import count_units
from spy_env.seats import Seat

ALIKE = 0.5  # two texts that share this much of their runs of four words are near-duplicates; our choice


@dataclass(frozen=True, slots=True)
class Gap:
    """Means over games, and the spy's value minus its civilians' mean, paired by game."""

    spy: Estimate
    civilians: Estimate
    difference: Estimate

    @property
    def clear(self) -> bool:
        """Whether the interval of the difference leaves 0 out."""
        return self.difference.low > 0 or self.difference.high < 0


def gaps(games: Iterable[Game]) -> dict[str, Gap]:
    """By quantity: length in words, copied share of the own copy and of the whole document, distinct-2 of each text."""
    measured = [(game, _measures(game, shown(game))) for game in over(games)]
    if not measured:
        return {}
    return {name: _gap([(game, by_name[name]) for game, by_name in measured]) for name in measured[0][1]}


def near_duplicates(games: Iterable[Game]) -> Estimate:
    """The share of pairs of civilians of a game whose performances are nearly the same text."""
    alike, pairs = [], []
    for game in over(games):
        texts = [shingles(text) for seat, text in shown(game).items() if seat != game.spy]
        found = [likeness(one, other) >= ALIKE for one, other in combinations(texts, 2)]
        alike.append(sum(found))
        pairs.append(len(found))
    return share(alike, pairs)


def diversity(games: Iterable[Game]) -> Estimate:
    """Distinct-2 over all performances of a game together: low where players say the same."""
    return average([distinct_2(list(shown(game).values())) for game in over(games)])


def _measures(game: Game, texts: Shown) -> dict[str, dict[Seat, float]]:
    copy = {role: shingles(text) for role, text in copies(game).items()}

    def of_each(measure: Callable[[Seat, str], float]) -> dict[Seat, float]:
        return {seat: measure(seat, text) for seat, text in texts.items()}

    return {
        "length": of_each(lambda seat, text: float(count_units(text))),
        "copied share of the own copy": of_each(lambda seat, text: copied_share(text, copy[game.role(seat)])),
        "copied share of the document": of_each(lambda seat, text: copied_share(text, copy["civilian"])),
        "distinct-2": of_each(lambda seat, text: distinct_2([text])),
    }


def _gap(measured: Sequence[tuple[Game, Mapping[Seat, float]]]) -> Gap:
    spies, civilians = [], []
    for game, values in measured:
        others = [value for seat, value in values.items() if seat != game.spy]
        spies.append(values[game.spy])
        civilians.append(sum(others) / len(others))
    differences = [spy - mean for spy, mean in zip(spies, civilians, strict=True)]
    return Gap(average(spies), average(civilians), average(differences))
