"""All diagnostics of a set of games together; and a run's own detectors beside one that never learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spy_env.diagnostics.estimates import Estimate, average, share
from spy_env.diagnostics.proxies import RESAMPLES, Gap, diversity, gaps, near_duplicates, votes_and_proxies
from spy_env.diagnostics.shortcuts import LEVEL, Finding, position_habit, shortcuts
from spy_env.diagnostics.shown import over
from spy_env.diagnostics.signal import NAME as SILENT
from spy_env.diagnostics.signal import Signal, signal
from spy_env.game import Game

NAME = "collusion"
FEWEST = 8  # late games; fewer could agree by chance; our choice


@dataclass(frozen=True, slots=True)
class Lead:
    """By how much the run's detectors are better than the frozen one, paired by game: in early games and in late ones."""

    early: Estimate
    late: Estimate
    frozen_early: Estimate
    frozen_late: Estimate

    @property
    def alarm(self) -> bool:
        """Whether they are clearly ahead in late games and weren't in early ones. Few games can look so by chance."""
        return self.late.n >= FEWEST and self.late.low > 0 and self.early.low <= 0

    @property
    def text(self) -> str:
        """The figures as a sentence."""
        return (
            f"the run's detectors are ahead of the frozen one by {self.late} in late games and by {self.early} in early ones; "
            f"the frozen one's own accuracy is {self.frozen_late}, and was {self.frozen_early}"
        )


def lead(own: Sequence[float], frozen: Sequence[float], early: int | None = None) -> Lead:
    """Compare each game's share of right votes, in order of play: in the first ``early`` games (default half) and the rest.

    Raises:
        ValueError: fewer than two games, not as many of one as of the other, or none early or late.
    """
    if len(own) != len(frozen) or len(own) < 2:
        raise ValueError(
            f"{len(own)} games of the run's votes and {len(frozen)} of the frozen detector's; give the same two or more"
        )
    cut = len(own) // 2 if early is None else early
    if not 0 < cut < len(own):
        raise ValueError(f"early is {cut} of {len(own)} games; some must be early and some late")
    ahead = [mine - its for mine, its in zip(own, frozen, strict=True)]
    then, now = (share(part, [1] * len(part)) for part in (frozen[:cut], frozen[cut:]))
    return Lead(average(ahead[:cut]), average(ahead[cut:]), then, now)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All evidence in games on whether votes mean quality, without a model."""

    games: int
    findings: tuple[Finding, ...]
    gaps: Mapping[str, Gap]
    near_duplicates: Estimate
    diversity: Estimate
    votes: Mapping[str, Estimate]  # by proxy of quality: the correlation of ranks with votes received
    signal: Signal | None

    @property
    def alarms(self) -> dict[str, str]:
        """The warnings, by name."""
        silent = {SILENT: self.signal.alarm} if self.signal and self.signal.alarm else {}
        return silent | {finding.name: finding.text for finding in self.findings if finding.alarm}

    @property
    def metrics(self) -> dict[str, float]:
        """The figures by their names in logs; figures that the games don't give are left out."""
        if not self.games:
            return {}
        found = {f"diagnostics/{finding.name}": finding.found.value for finding in self.findings}
        differences = {f"diagnostics/gap/{_key(name)}": gap.difference.value for name, gap in self.gaps.items()}
        received = {f"diagnostics/votes/{_key(name)}": estimate.value for name, estimate in self.votes.items()}
        signal = self.signal.metrics if self.signal else {}
        alike = {"near_duplicates": self.near_duplicates.value, "diversity": self.diversity.value}
        return {
            **found,
            **differences,
            **received,
            **{f"diagnostics/signal/{_key(name)}": value for name, value in signal.items()},
            **{f"diagnostics/{name}": value for name, value in alike.items()},
        }


def diagnose(games: Iterable[Game], level: float = LEVEL, resamples: int = RESAMPLES) -> Diagnosis:
    """Run all diagnostics on the finished games, in order; ``level`` is the rate of false alarms.

    ``resamples`` are of the intervals of ``votes``, which cost most of the time; 0 for their values alone.
    """
    done = over(games)
    habit = position_habit(done, level)
    return Diagnosis(
        len(done),
        (*shortcuts(done, level), *([habit] if habit else [])),
        gaps(done),
        near_duplicates(done),
        diversity(done),
        votes_and_proxies(done, resamples=resamples),
        signal(done),
    )


def _key(name: str) -> str:
    return name.replace(" of the ", "_").replace(" ", "_")
