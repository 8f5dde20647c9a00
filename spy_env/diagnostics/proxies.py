"""Do votes still mean quality? How votes received go with what can be counted of a performance's quality, over time.

No model takes part: coverage of what only civilians could read, copied share, length. A negative correlation of votes
with coverage says that who leaves out draws votes, which is what votes are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from spy_env.diagnostics.estimates import Estimate
from spy_env.diagnostics.shown import over, seen_and_hidden, shown
from spy_env.diagnostics.wording import content_words, copied_share, coverage, shingles
from spy_env.game import Game
from spy_env.masking import count_units
from spy_env.seats import Seat

RESAMPLES = 500  # of the bootstrap; our choice
FEWEST = 8  # games of an interval: resampled, fewer often all say the same, and would then pass for certain; our choice
COVERAGE, COPIED, LENGTH = "coverage of the hidden text", "copied share", "length"


@dataclass(frozen=True, slots=True)
class Products:
    """Of one game's centred ranks of votes and of a proxy: sums of their products and squares."""

    both: float
    votes: float
    proxy: float


def hidden_words(game: Game) -> set[str]:
    """The content words of the hidden text that stand nowhere else in the document: what the spy can't know."""
    seen, unseen = seen_and_hidden(game)
    return content_words(unseen) - content_words(seen)


def proxies(game: Game) -> dict[str, dict[Seat, float]]:
    """What can be counted of each performance; no coverage where nothing was hidden that stands there alone."""
    texts, source, wanted = shown(game), shingles(game.document.text), hidden_words(game)
    found = {
        COPIED: {seat: copied_share(text, source) for seat, text in texts.items()},
        LENGTH: {seat: float(count_units(text)) for seat, text in texts.items()},
    }
    return {COVERAGE: {seat: coverage(text, wanted) for seat, text in texts.items()}, **found} if wanted else found


def votes_and_proxies(games: Iterable[Game], seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Estimate]:
    """By proxy: the correlation of ranks (Spearman's, ties shared, each game ranked by itself and all games pooled).

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
    """Ranks about their mean; equal values share theirs."""
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
