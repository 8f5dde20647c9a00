"""Which metrics of a run are shown, in which figures; and the table on a terminal, with a row per metric and a column per run."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spy_env import STAGES
from spy_env.ballot import printable
from trainers.inspection.runs import Run

ROLES = ("civilian", "spy", "referee")


@dataclass(frozen=True, slots=True)
class Figure:
    """Metrics by label, drawn together. ``prefix`` adds all metrics that begin with it, labelled by their ends."""

    title: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    note: str = ""
    shares: bool = False  # from 0 to 1
    chance: bool = False  # with a line at the accuracy of a vote at random

    def metrics_of(self, runs: Sequence[Run]) -> dict[str, str]:
        """Return the metrics by label that at least one run logged."""
        metrics = dict(self.metrics)
        names = {name for run in runs for row in run.rows for name in row} if self.prefix else set()
        for name in sorted(names):
            if name.startswith(self.prefix):
                # After the prefix, a baseline's name begins with the path of its task if that is a user's own.
                metrics["/".join(name.removeprefix(self.prefix).split("/")[-3:])] = name
        return {label: name for label, name in metrics.items() if any(run.curve(name) for run in runs)}


def _by_role(stem: str, roles: Sequence[str] = ROLES) -> dict[str, str]:
    return {role: f"{stem}/{role}" for role in roles}


FIGURES = (
    Figure("Performing reward by role", _by_role("game/reward_performing", ROLES[:2]), note="sums to 0 over a game"),
    Figure("Reward of the trained replies", {"mean": "reward", "std": "reward_std"}),
    Figure("Detection accuracy by voter's role", _by_role("game/accuracy"), shares=True, chance=True),
    Figure("Spy caught", {"caught": "game/caught"}, shares=True, note="the spy alone received the most votes"),
    Figure("Abstentions", _by_role("game/abstained"), shares=True),
    Figure("Unreadable votes", _by_role("game/unreadable"), shares=True),
    Figure(
        "Votes for the commonest number",
        {"share": "game/commonest_vote"},
        shares=True,
        note="the fewer votes, the more by chance alone",
    ),
    Figure(
        "Entropy of votes",
        {"iteration": "game/vote_entropy", "running average": "game/vote_entropy_average"},
        note="nats; near 0 all votes are alike, and detection can't learn from them",
    ),
    Figure("Truncated replies", _by_role("game/truncated", STAGES), shares=True),
    Figure("Performances without the marker", {"unmarked": "game/unmarked"}, shares=True),
    Figure("Length of the trained replies", {"tokens": "completions/mean_length"}, note="of the stage that is trained"),
    Figure("Entropy", {"entropy": "entropy"}, note="nats a token"),
    Figure("KL to the model before training", {"KL": "kl"}, note="nats a token"),
    Figure(
        "Gap of sampler and trainer",
        {"mean": "sampling/logp_difference_mean", "max": "sampling/logp_difference_max"},
        note="of log-probabilities",
    ),
    Figure(
        "Games without signal",
        {"equal rewards": "frac_reward_zero_std", "no readable vote": "game/no_readable_vote"},
        shares=True,
    ),
    Figure("Update's norm", _by_role("update_norm", (*STAGES, "joint"))),
    Figure("Role baselines", prefix="game/baseline/"),
    Figure(
        "Running averages of the schedule",
        {"accuracy": "game/accuracy_average", "abstentions": "game/abstention_average"},
        shares=True,
    ),
    Figure("Forced switches of the stage", {"so far": "game/forced_switches"}),
    Figure(
        "Held-out games: detection accuracy",
        {
            "all": "eval/detection accuracy",
            "where a player is named": "eval/detection accuracy where a player is named",
        },
        shares=True,
        chance=True,
    ),
    Figure(
        "Held-out games: against the fixed opponent", {"on both sides": "eval/learner on both sides: performing reward"}
    ),
    Figure(
        "Probes of form: accuracy",
        {name: f"diagnostics/shortcut/{name}" for name in ("length", "position", "copying", "vocabulary")},
        shares=True,
        chance=True,
    ),
    Figure(
        "Probes of talk: accuracy",
        {name: f"diagnostics/shortcut/{name}" for name in ("mask", "role", "refusal")},
        shares=True,
        chance=True,
    ),
    Figure("Votes and quality, correlation of ranks", prefix="diagnostics/votes/"),
)


WINDOW = 10  # iterations averaged at the beginning and at the end, at most half of them; our choice
MISSING = "-"


def rows_of(runs: Sequence[Run]) -> list[list[str]]:
    """Return the heading, and a row for each metric that at least one run logged."""
    rows = [["", *(run.name for run in runs)]]
    rows.append(["iterations", *map(iterations, runs)])
    rows.append(["trained stages", *map(_stages, runs)])
    for figure in FIGURES:
        for label, metric in figure.metrics_of(runs).items():
            means = (" > ".join(map(number, ends(run, metric))) for run in runs)
            rows.append([f"{figure.title}: {label}", *(text or MISSING for text in means)])
    rows.append(["chance", *(MISSING if run.chance is None else f"{run.chance:.3f}" for run in runs)])
    return rows


def ends(run: Run, metric: str) -> list[float]:
    """Return the means of a metric's first and last values; a lone value as it is; nothing for an unknown metric."""
    values = [value for _, value in run.curve(metric)]
    if len(values) < 2:
        return values
    window = min(WINDOW, len(values) // 2)
    return [sum(part) / window for part in (values[:window], values[-window:])]


def number(value: float) -> str:
    """Return three decimals, or two digits where those would be noughts or too many."""
    return f"{value:z.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.2g}"


def iterations(run: Run) -> str:
    """Return how many iterations were trained, and of how many, such as ``80 of 100``."""
    planned = run.settings.get("train.iterations")
    done = MISSING if run.last_step is None else str(run.last_step)
    return done if planned in (None, run.last_step) else f"{done} of {planned}"


def _stages(run: Run) -> str:
    counts = Counter(stage for _, stage in run.stages)
    return ", ".join(f"{count} {stage}" for stage, count in counts.items()) or MISSING


def show(rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a table: with rich on a terminal if that is installed, else as aligned text."""
    rows = [list(map(printable, row)) for row in rows]
    if not (sys.stdout.isatty() and importlib.util.find_spec("rich")):
        print(f"{title}\n{aligned(rows)}")
        return
    from rich import print as rich_print
    from rich.markup import escape
    from rich.table import Table

    table = Table(*map(escape, rows[0]), title=title)
    for row in rows[1:]:
        table.add_row(*map(escape, row))
    rich_print(table)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return columns of text, the first one to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)
