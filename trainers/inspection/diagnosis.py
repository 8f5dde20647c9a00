"""What the games of a run say of its votes: diagnostics of the last games, votes against quality over time, what is warned of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from spy_env import Game
from spy_env.diagnostics import Diagnosis, Lead, diagnose, votes_and_proxies
from spy_env.diagnostics.collusion import NAME as COLLUSION
from spy_env.diagnostics.estimates import Estimate
from trainers.inspection.runs import Run

BINS = 5  # stretches of iterations that votes and quality are compared in
FEWEST = 4  # games of a stretch
MOST = 300  # games of a stretch that are looked at, evenly over it: a second or so each stretch


@dataclass(frozen=True, slots=True)
class Stretch:
    """Iterations that follow one another, and how votes went with each proxy of quality."""

    first: int
    last: int
    games: int
    votes: dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class Judged:
    """A run's diagnosis. ``trouble`` says why there is none, or what it lacks."""

    diagnosis: Diagnosis | None
    stretches: tuple[Stretch, ...]
    lead: Lead | None
    trouble: tuple[str, ...]

    @property
    def warnings(self) -> dict[str, str]:
        """What is to be warned of, by name."""
        alarms = self.diagnosis.alarms if self.diagnosis else {}
        return alarms | ({COLLUSION: self.lead.text} if self.lead and self.lead.alarm else {})


def judge(run: Run, last: int, lead: Lead | None = None, trouble: Sequence[str] = ()) -> Judged:
    """Look at a run's games: probes at the ``last`` ones, votes and quality at all."""
    try:
        games = run.games_by_step
        if not games:
            return Judged(None, (), lead, (*trouble, "no game that is over, so nothing is known of the votes"))
        return Judged(diagnose([game for _, game in games][-last:]), _stretches(games), lead, tuple(trouble))
    except ValueError as error:  # a task that isn't here, records of another version
        return Judged(None, (), lead, (*trouble, f"its games can't be judged: {error}"))


def _stretches(games: Sequence[tuple[int, Game]]) -> tuple[Stretch, ...]:
    steps = sorted({step for step, _ in games})
    count = max(1, min(BINS, len(steps), len(games) // FEWEST))
    cuts = [len(steps) * i // count for i in range(count + 1)]
    found = []
    for begin, end in pairwise(cuts):
        own = [game for step, game in games if steps[begin] <= step <= steps[end - 1]]
        own = own[:: -(-len(own) // MOST)]
        found.append(Stretch(steps[begin], steps[end - 1], len(own), votes_and_proxies(own)))
    return tuple(found)
