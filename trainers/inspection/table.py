"""The table on a terminal: a row a metric, a column a run, how it began and how it stands."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from spy_env.ballot import printable
from trainers.inspection.figures import FIGURES
from trainers.inspection.runs import Run

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
