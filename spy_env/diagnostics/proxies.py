"""Quantities of performances: the gap between spies and civilians, and the correlation with votes received."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

from spy_env.diagnostics.estimates import Estimate, average, share
from spy_env.diagnostics.shown import Shown, copies, over, seen_and_hidden, shown
from spy_env.game import Game
from spy_env.masking import count_units
from spy_env.seats import Seat
from spy_env.wording import content_words, copied_share, coverage, distinct_2, likeness, shingles

ALIKE = 0.5  # two texts that share this much of their runs of four words are near-duplicates; our choice


@dataclass(frozen=True, slots=True)
class Gap:
    """Means over games, and the spy's value minus its civilians' mean, paired by game."""

    spy: Estimate
    civilians: Estimate
    difference: Estimate

    @property
    def clear(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        return self.difference.low > 0 or self.difference.high < 0


def gaps(games: Iterable[Game]) -> dict[str, Gap]:
    """Return the gap of each quantity: length in words, copied shares of the player's copy and of the document, distinct-2."""
    measured = [(game, _measures(game, shown(game))) for game in over(games)]
    if not measured:
        return {}
    return {name: _gap([(game, by_name[name]) for game, by_name in measured]) for name in measured[0][1]}


def near_duplicates(games: Iterable[Game]) -> Estimate:
    """Estimate the share of pairs of civilians of a game whose performances are nearly the same."""
    alike, pairs = [], []
    for game in over(games):
        texts = [shingles(text) for seat, text in shown(game).items() if seat != game.spy]
        found = [likeness(one, other) >= ALIKE for one, other in combinations(texts, 2)]
        alike.append(sum(found))
        pairs.append(len(found))
    return share(alike, pairs)


def diversity(games: Iterable[Game]) -> Estimate:
    """Estimate distinct-2 over all performances of a game: low if players write the same."""
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


RESAMPLES = 500  # of the bootstrap; our choice
FEWEST = 8  # games of an interval; resampling fewer could claim certainty; our choice
COVERAGE, COPIED, LENGTH = "coverage of the hidden text", "copied share", "length"


@dataclass(frozen=True, slots=True)
class Products:
    """Sums of products and squares of one game's centred ranks, of votes and of a proxy."""

    both: float
    votes: float
    proxy: float


def hidden_words(game: Game) -> set[str]:
    """Return the content words that occur in the hidden text alone: the words that the spy can't know."""
    seen, unseen = seen_and_hidden(game)
    return content_words(unseen) - content_words(seen)


def proxies(game: Game) -> dict[str, dict[Seat, float]]:
    """Measure each performance; without coverage if no word occurs in the hidden text alone."""
    texts, source, wanted = shown(game), shingles(game.document.text), hidden_words(game)
    found = {
        COPIED: {seat: copied_share(text, source) for seat, text in texts.items()},
        LENGTH: {seat: float(count_units(text)) for seat, text in texts.items()},
    }
    return {COVERAGE: {seat: coverage(text, wanted) for seat, text in texts.items()}, **found} if wanted else found


def votes_and_proxies(games: Iterable[Game], seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Estimate]:
    """Correlate votes received with each proxy (Spearman's; ties shared, each game ranked by itself, all games pooled).

    The interval is the bootstrap's over games; without resamples, or of fewer than ``FEWEST`` games, from -1 to 1. A proxy is
    left out where no game has both votes and texts that differ.
    """
    by_proxy: dict[str, list[Products]] = {}
    for game in over(games):
        received = game.tally().received
        for name, values in proxies(game).items():
            by_proxy.setdefault(name, []).append(_products(received, values))
    pooled = {name: [one for one in products if one.votes and one.proxy] for name, products in by_proxy.items()}
    return {name: _bootstrapped(products, seed, resamples) for name, products in pooled.items() if products}


def _products(received: Mapping[Seat, float], values: Mapping[Seat, float]) -> Products:
    votes = _centred_ranks([received[seat] for seat in values])
    proxy = _centred_ranks(list(values.values()))
    return Products(
        sum(a * b for a, b in zip(votes, proxy, strict=True)), sum(a * a for a in votes), sum(b * b for b in proxy)
    )


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """Rank values about their mean; equal values share a rank."""
    return [(sum(other < value for other in values) - sum(other > value for other in values)) / 2 for value in values]


def _bootstrapped(products: Sequence[Products], seed: int, resamples: int) -> Estimate:
    rng, n = Random(seed), len(products)
    if n < FEWEST or not resamples:
        return Estimate(_correlation(products), -1.0, 1.0, n)
    drawn = sorted(_correlation(rng.choices(products, k=n)) for _ in range(resamples))
    cut = round(0.025 * resamples)
    return Estimate(_correlation(products), drawn[cut - 1], drawn[-cut], n)


def _correlation(products: Sequence[Products]) -> float:
    votes, proxy = sum(one.votes for one in products), sum(one.proxy for one in products)
    return sum(one.both for one in products) / (votes * proxy) ** 0.5
