"""The diagnostics of one set of games together: as metrics and as alarms, the same for a run going on and one looked back at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spy_env.diagnostics.estimates import Estimate
from spy_env.diagnostics.gaps import Gap, diversity, gaps, near_duplicates
from spy_env.diagnostics.proxies import RESAMPLES, votes_and_proxies
from spy_env.diagnostics.shortcuts import LEVEL, Finding, position_habit, shortcuts
from spy_env.diagnostics.shown import over
from spy_env.game import Game


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that games say of whether votes mean quality, without a model."""

    games: int
    findings: tuple[Finding, ...]
    gaps: Mapping[str, Gap]
    near_duplicates: Estimate
    diversity: Estimate
    votes: Mapping[str, Estimate]  # by proxy of quality: the correlation of ranks with votes received

    @property
    def alarms(self) -> dict[str, str]:
        """What is to be warned of, by name."""
        return {finding.name: finding.text for finding in self.findings if finding.alarm}

    @property
    def metrics(self) -> dict[str, float]:
        """The figures by the names that logs have for them; none of what the games can't tell."""
        if not self.games:
            return {}
        found = {f"diagnostics/{finding.name}": finding.found.value for finding in self.findings}
        differences = {f"diagnostics/gap/{_key(name)}": gap.difference.value for name, gap in self.gaps.items()}
        received = {f"diagnostics/votes/{_key(name)}": estimate.value for name, estimate in self.votes.items()}
        alike = {"near_duplicates": self.near_duplicates.value, "diversity": self.diversity.value}
        return {
            **found,
            **differences,
            **received,
            **{f"diagnostics/{name}": value for name, value in alike.items()},
        }


def diagnose(games: Iterable[Game], level: float = LEVEL, resamples: int = RESAMPLES) -> Diagnosis:
    """All diagnostics of the games that are over, in their order; ``level`` is the rate of false alarms.

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
    )


def _key(name: str) -> str:
    return name.replace(" of the ", "_").replace(" ", "_")
