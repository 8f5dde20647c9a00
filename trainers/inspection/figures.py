"""What is shown of runs, and the table on a terminal: a row per metric, a column per run."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spy_env.ballot import printable
from trainers.inspection.runs import Run

ROLES = ("civilian", "spy", "referee")


@dataclass(frozen=True, slots=True)
class Figure:
    """Metrics by label, drawn together. ``prefix``: also all metrics that begin so, by what follows."""

    title: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    note: str = ""
    shares: bool = False  # from 0 to 1
    chance: bool = False  # with a line at the accuracy of a vote at random

    def metrics_of(self, runs: Sequence[Run]) -> dict[str, str]:
        """The metrics by label that any of the runs tells."""
        named = dict(self.metrics)
        if self.prefix:
            for run in runs:
                named |= {_short(name.removeprefix(self.prefix)): name for name in run.names_under(self.prefix)}
        return {label: name for label, name in named.items() if any(run.curve(name) for run in runs)}


def _short(label: str) -> str:
    """The end of a label that begins with a path, as a baseline's does with a task of one's own."""
    return "/".join(label.split("/")[-3:])


def _by_role(stem: str, roles: Sequence[str] = ROLES) -> dict[str, str]:
    return {role: f"{stem}/{role}" for role in roles}


_BY_STAGE = ("performing", "detection")

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
    Figure("Truncated replies", _by_role("game/truncated", _BY_STAGE), shares=True),
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
    Figure("Update's norm", _by_role("update_norm", (*_BY_STAGE, "joint"))),
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


WINDOW = 10  # iterations that the beginning and the end are averaged over, and at most half of those there are
MISSING = "-"


def rows_of(runs: Sequence[Run]) -> list[list[str]]:
    """The heading and a row for each metric that any run tells."""
    rows = [["", *(run.name for run in runs)]]
    rows.append(["iterations", *(_iterations(run) for run in runs)])
    rows.append(["trained stages", *(_stages(run) for run in runs)])
    for figure in FIGURES:
        for label, metric in figure.metrics_of(runs).items():
            rows.append([f"{figure.title}: {label}", *(began_and_ended(run, metric) for run in runs)])
    rows.append(["chance", *(MISSING if run.chance is None else f"{run.chance:.3f}" for run in runs)])
    return rows


def began_and_ended(run: Run, metric: str) -> str:
    """The means of a metric's first and last values; a lone value as it is."""
    values = [value for _, value in run.curve(metric)]
    if len(values) < 2:
        return _number(values[0]) if values else MISSING
    window = min(WINDOW, len(values) // 2)
    return f"{_number(sum(values[:window]) / window)} > {_number(sum(values[-window:]) / window)}"


def _number(value: float) -> str:
    return f"{value:z.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.2g}"


def _iterations(run: Run) -> str:
    return str(run.rows[-1]["step"]) if run.rows else MISSING


def _stages(run: Run) -> str:
    stages = [stage for _, stage in run.stages]
    return ", ".join(f"{stages.count(stage)} {stage}" for stage in dict.fromkeys(stages)) or MISSING


def show(rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a table: with rich on a terminal where that is installed, as aligned text elsewhere."""
    rows = [list(map(printable, row)) for row in rows]
    if sys.stdout.isatty() and importlib.util.find_spec("rich"):
        from rich import print as rich_print
        from rich.markup import escape
        from rich.table import Table

        table = Table(*map(escape, rows[0]), title=title)
        for row in rows[1:]:
            table.add_row(*map(escape, row))
        rich_print(table)
        return
    print(f"{title}\n{aligned(rows)}")


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
