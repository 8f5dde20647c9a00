"""The display of a run going on: a live table with the time left, or plain lines if there is no terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import timedelta

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

SHOWN = 12  # iterations kept in sight
COLUMNS = {  # heading: metric
    "readable": "game/readable",
    "accuracy": "game/accuracy",
    "same seat": "game/commonest_vote",
    "reward": "reward",
    "KL": "kl",
    "grad": "grad_norm",
}


class Display:
    """A live table on a terminal, one line per iteration elsewhere."""

    def __init__(self, console: Console, iterations: int, max_minutes: float | None = None) -> None:
        """Show a run of ``iterations`` on ``console``. Until the first is done, ``max_minutes`` stands for the time left."""
        self.console = console
        self._rows: deque[list[str]] = deque(maxlen=SHOWN)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self._task = self._progress.add_task(
            "training", total=iterations, left=f"at most {max_minutes:g} minutes" if max_minutes else ""
        )
        self._live = Live(self._view(), console=console, refresh_per_second=2) if console.is_terminal else None

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a line above the table."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def doing(self, what: str) -> None:
        """Show what the run is doing now."""
        self._progress.update(self._task, description=what)
        self._refresh()

    def step(self, step: int, stage: str, metrics: Mapping[str, float], seconds: float, seconds_left: float) -> None:
        """Show an iteration that is done."""
        row = [
            str(step),
            stage,
            *(f"{metrics[name]:.3g}" if name in metrics else "-" for name in COLUMNS.values()),
            f"{seconds:.3g}",
        ]
        self._rows.append(row)
        left = f"about {timedelta(seconds=int(max(0, seconds_left)))} left"
        self._progress.update(self._task, completed=step, left=left)
        if self._live:
            self._refresh()
        else:
            figures = "  ".join(f"{name} {value}" for name, value in zip([*COLUMNS, "seconds"], row[2:], strict=True))
            self.say(f"iteration {step} ({stage})  {figures}  {left}")

    def _refresh(self) -> None:
        if self._live:
            self._live.update(self._view())

    def _view(self) -> Group:
        table = Table("iteration", "trained stage", *COLUMNS, "seconds", title='"Who is the spy?"')
        for row in self._rows:
            table.add_row(*row)
        return Group(table, self._progress)
