"""The votes of a run, judged by its games: diagnostics of the last ones, votes against quality over time, warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from spy_env import Game
from spy_env.diagnostics import Diagnosis, Lead, Signal, diagnose, votes_and_proxies
from spy_env.diagnostics.diagnosis import NAME as COLLUSION
from spy_env.diagnostics.estimates import Estimate
from trainers.inspection.runs import Run

# Our choices: as many stretches of iterations, of at least so many games, of which so many are looked at, spread evenly;
# a stretch then takes about a second.
STRETCHES, FEWEST, MOST = 5, 4, 300
PROBED = "the first quarter to teach the probes"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive iterations, and how votes went with each proxy of quality."""

    first: int
    last: int
    games: int
    votes: dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run's diagnosis; ``trouble`` holds reasons why it is missing or incomplete."""

    diagnosis: Diagnosis | None
    stretches: tuple[Stretch, ...]
    lead: Lead | None
    trouble: tuple[str, ...]

    @property
    def warnings(self) -> dict[str, str]:
        """Texts of warnings by name."""
        alarms = self.diagnosis.alarms if self.diagnosis else {}
        return alarms | ({COLLUSION: self.lead.text} if self.lead and self.lead.alarm else {})

    @property
    def tables(self) -> list[list[list[str]]]:
        """Tables of the probes and of the gaps between spies' and civilians' texts, with headings; none without a diagnosis."""
        if self.diagnosis is None:
            return []
        probes = [["probe", "finds the spy", "chance", "p", "detectors"]]
        for probe in self.diagnosis.findings:
            numbers = (str(probe.found), f"{probe.chance:.3f}", f"{probe.p_value:.2g}", str(probe.detectors))
            probes.append([probe.name, *numbers])
        gaps = [["spy against civilians", "spy", "civilians", "difference"]]
        for measure, gap in self.diagnosis.gaps.items():
            gaps.append([measure, *map(_cell, (gap.spy, gap.civilians, gap.difference))])
        return [*_signal_tables(self.diagnosis.signal), probes, gaps]

    @property
    def texts(self) -> list[str]:
        """The other figures, a sentence each."""
        texts = [self.lead.text] if self.lead else []
        if self.diagnosis:
            alike, diversity = self.diagnosis.near_duplicates, _cell(self.diagnosis.diversity)
            texts.append(f"near-duplicates among civilians: {alike}; distinct-2 of a game: {diversity}")
        return texts


def _signal_tables(signal: Signal | None) -> list[list[list[str]]]:
    if signal is None:
        return []
    texts = [["signal in the texts", "civilians", "spy"]]
    texts += [[name, _cell(roles["civilian"]), _cell(roles["spy"])] for name, roles in signal.measures.items()]
    finds = [["detectors without a model", "find the spy", "chance"]]
    finds += [[name, str(accuracy), f"{signal.chance:.3f}"] for name, accuracy in signal.detectors.items()]
    return [texts, finds]


def _cell(estimate: Estimate) -> str:
    return str(estimate) if estimate.n > 1 else f"{estimate.value:.3f}"


def judge(run: Run, last: int, lead: Lead | None = None, trouble: Sequence[str] = ()) -> Verdict:
    """Run the probes on the ``last`` games, and compare votes with quality on all games."""
    try:
        games = run.games_by_step
        if not games:
            return Verdict(None, (), lead, (*trouble, "no game that is over, so nothing is known of the votes"))
        return Verdict(diagnose([game for _, game in games][-last:]), _stretches(games), lead, tuple(trouble))
    except ValueError as error:  # a task that isn't installed, or records of another version
        return Verdict(None, (), lead, (*trouble, f"its games can't be judged: {error}"))


def _stretches(games: Sequence[tuple[int, Game]]) -> tuple[Stretch, ...]:
    steps = sorted({step for step, _ in games})
    count = max(1, min(STRETCHES, len(steps), len(games) // FEWEST))
    stretches = []
    for begin, end in pairwise(len(steps) * i // count for i in range(count + 1)):
        first, last = steps[begin], steps[end - 1]
        some = [game for step, game in games if first <= step <= last]
        some = some[:: -(-len(some) // MOST)]
        stretches.append(Stretch(first, last, len(some), votes_and_proxies(some)))
    return tuple(stretches)
