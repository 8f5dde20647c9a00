"""Warnings: a probe finds the spy as well as the detectors do, or votes go to a number whoever sits there.

Who the spy is was drawn apart from everything else, so where spy and civilians write alike, a probe that names k of n
players holds the spy with chance k/n exactly, game by game. Sums of such games have a known distribution, and the rate
of false alarms is exact whatever the texts look like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spy_env.diagnostics.estimates import Estimate, average, share
from spy_env.diagnostics.probes import PROBES, credit, judged
from spy_env.diagnostics.shown import Shown, detector_share, first_of_each_seed, shown
from spy_env.game import Game

LEVEL = 0.05  # rate of false alarms over all tests of one look together
TESTS = len(PROBES) + 1  # Bonferroni's correction: each probe, and the habit of voting for a number
WARM_UP = 50  # games that probes learn from before they count, at most; and at most a quarter of the games


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one test. ``found`` is the probe's accuracy, ``detectors`` the votes' on the same games."""

    name: str
    found: Estimate
    chance: float
    p_value: float  # the chance of at least as many games with the spy among the named, if texts don't tell it
    detectors: Estimate
    ahead: Estimate | None  # by how much the detectors are better than the probe, paired by game
    alarm: bool
    text: str


class Look(NamedTuple):
    """A game, what its players show, and the share of its votes that are right; the same for every probe."""

    game: Game
    texts: Shown
    detectors: float


def shortcuts(games: Iterable[Game], level: float = LEVEL) -> list[Finding]:
    """Try every probe on the finished games. Each game is judged by probes that learned from earlier ones; seeds count once.

    A probe raises an alarm where both hold: it finds the spy more often than chance (exact one-sided test at ``level`` /
    ``TESTS``), and the detectors aren't clearly better on the same games (the 95 % interval of the mean difference,
    paired by game, reaches 0 or below).
    """
    looks = [Look(game, shown(game), detector_share(game)) for game in first_of_each_seed(games)]
    return [_finding(name, looks, level / TESTS) for name in PROBES] if looks else []


def position_habit(games: Iterable[Game], level: float = LEVEL) -> Finding | None:
    """Test whether votes go to the number that was named most in earlier games; None if no game allows it.

    Seats are dealt at random, so that a fair vote has no number that it likes.
    """
    named: Counter[int] = Counter()
    inside, chances, hits, counts = [], [], [], []
    players, done = 0.0, first_of_each_seed(games)
    for game in done:
        votes = Counter(game.numbers().values())
        favourites = [number for number, _ in named.most_common(2) if number <= game.rules.players]
        if votes and favourites and (len(favourites) == 1 or named[favourites[0]] > named[favourites[1]]):
            most = [number for number in votes if votes[number] == max(votes.values())]
            inside.append(favourites[0] in most)
            chances.append(len(most) / len(game.players))
            hits.append(votes[favourites[0]])
            counts.append(votes.total())
            players += 1 / len(game.players)
        named.update(votes)
    if not inside:
        return None
    p_value, found, chance = chance_of(inside, chances), share(hits, counts), players / len(inside)
    favourite = named.most_common(1)[0][0]
    text = f"{found} of the votes that name a player name the number that was named most before, now {favourite}; chance {chance:.3f}"
    own = share([detector_share(game) for game in done], [1] * len(done))
    return Finding("habit/position", found, chance, p_value, own, None, p_value < level / TESTS, text)


def _finding(name: str, looks: Sequence[Look], level: float) -> Finding:
    begin = min(WARM_UP, len(looks) // 4)
    named_in = judged(PROBES[name](), [(look.game, look.texts) for look in looks])
    judgements = [(look.game, named) for look, named in zip(looks, named_in, strict=True)][begin:]
    credits = [credit(named, game) for game, named in judgements]
    shares = [look.detectors for look in looks[begin:]]
    telling = [(game, named) for game, named in judgements if 0 < len(named) < len(game.players)]
    inside = [game.spy in named for game, named in telling]
    p_value = chance_of(inside, [len(named) / len(game.players) for game, named in telling])
    ones = [1] * len(judgements)
    found, detectors = share(credits, ones), share(shares, ones)
    ahead = average([own - probe for own, probe in zip(shares, credits, strict=True)])
    chance = sum(1 / len(game.players) for game, _ in judgements) / len(judgements)
    text = (
        f"a probe of {name} alone finds the spy in {found} of {len(judgements)} games (chance {chance:.3f}), "
        f"the detectors in {detectors}"
    )
    return Finding(
        f"shortcut/{name}", found, chance, p_value, detectors, ahead, p_value < level and ahead.low <= 0, text
    )


def chance_of(inside: Sequence[bool], chances: Sequence[float]) -> float:
    """Return the exact chance of at least as many independent successes, each with its own chance (Poisson binomial).

    Takes time with the square of their number: a second for some 3,000.
    """
    below = [1.0]  # below[k]: the chance of k successes so far
    for p in chances:
        below = [
            (below[k] * (1 - p) if k < len(below) else 0.0) + (below[k - 1] * p if k else 0.0)
            for k in range(len(below) + 1)
        ]
    return min(1.0, sum(below[sum(inside) :]))
