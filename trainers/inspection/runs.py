"""A run as its folder holds it, whichever trainer wrote it, and whether it is finished, stopped or still going on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from spy_env import Game, read_games
from spy_env.diagnostics import over
from spy_env.viewer.origin import CONFIGS, LOGS, config_row, games_files, origin_of, step_of, trained_files
from trainers.metrics import measure

Rows = tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Run:
    """The logs of a run; ``notes`` name whatever could not be read. Games are read when they are first asked for."""

    name: str
    folder: Path
    config: dict[str, Any]
    rows: Rows
    evaluations: Rows
    notes: tuple[str, ...]

    @property
    def inspection(self) -> Path:
        """The folder for reports: inside the run's folder, or beside a lone file of games."""
        return (self.folder if self.folder.is_dir() else self.folder.parent) / "inspection"

    @property
    def settings(self) -> dict[str, Any]:
        """The run's settings by dotted flag."""
        return _flags(self.config.get("config", {}))

    @property
    def last_step(self) -> int | None:
        """The last iteration that was logged."""
        return self.rows[-1]["step"] if self.rows else None

    def curve(self, metric: str) -> list[tuple[int, float]]:
        """Return (iteration, value) wherever a metric is a finite number; ``eval/...`` comes from the evaluations."""
        name = metric.removeprefix("eval/")
        rows = self.rows if name == metric else self.evaluations
        return [(row["step"], float(row[name])) for row in rows if _is_number(row.get(name))]

    @property
    def stages(self) -> list[tuple[int, str]]:
        """The trained stage by iteration."""
        return [(row["step"], str(row["stage"])) for row in self.rows if "stage" in row]

    @property
    def chance(self) -> float | None:
        """The accuracy of a vote at random, if the config or a game says how many play."""
        players = self.settings.get("game.players")
        if not isinstance(players, int) and self.games_by_step:
            players = self.games_by_step[0][1].rules.players
        return 1 / players if isinstance(players, int) and players else None

    @cached_property
    def games_by_step(self) -> tuple[tuple[int, Game], ...]:
        """The finished games that were trained on, by iteration; all games of a folder that holds no run."""
        try:
            files = trained_files(self.folder)
        except ValueError:
            return ()
        # Files are named by their iterations, all or none.
        steps = [(step_of(file) or number, file) for number, file in enumerate(files, start=1)]
        return tuple((step, game) for step, file in steps for game in _games(file))


def _flags(group: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flags: dict[str, Any] = {}
    for name, value in group.items():
        flags |= _flags(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flags


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Return each run once, named by as many of its path's last parts as tell all apart.

    Raises:
        ValueError: a folder doesn't exist, or holds neither metrics nor games.
    """
    folder_of = {folder.resolve().parts: folder for folder in folders}
    length = 1
    while len({parts[-length:] for parts in folder_of}) < len(folder_of):
        length += 1
    return [_read_run(folder_of[parts], "/".join(parts[-length:])) for parts in folder_of]


def _read_run(folder: Path, name: str) -> Run:
    if not any((folder / log).is_file() for log in LOGS):
        games_files(folder)  # raises an error that names the way out
    notes: list[str] = []
    rows = _lines(folder / "metrics.jsonl", notes)
    evaluations = _lines(folder / "evaluations.jsonl", notes) or _before_and_after(folder, rows, notes)
    return Run(name, folder, _config(folder, notes), rows, evaluations, tuple(notes))


def _lines(file: Path, notes: list[str]) -> Rows:
    """Return the rows of a log. A last line without a line break is still being written; a broken line becomes a note."""
    lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
        else:
            notes.append(f"{file}:{number} can't be read and is left out")
    return tuple(rows)


def _before_and_after(folder: Path, rows: Rows, notes: list[str]) -> Rows:
    """Measure the held-out games before and after training, which a run without curves plays but doesn't log."""
    steps = {"before": 0, "after": rows[-1]["step"] if rows else 0}
    measured = []
    for point, step in steps.items():
        file = folder / "games" / f"eval_{point}.jsonl"
        try:
            if games := _games(file):
                estimates = measure(games, origin_of(file).rewards)
                measured.append({"step": step, **{name: estimate.value for name, estimate in estimates.items()}})
        except ValueError as error:
            notes.append(f"{file} can't be measured: {error}")
    return tuple(measured)


def _config(folder: Path, notes: list[str]) -> dict[str, Any]:
    """Return the run's ``config.json``; empty, with a note, if there is none."""
    try:
        row = config_row(folder)
    except ValueError as error:
        notes.append(str(error))
        return {}
    if not row:
        notes.append(f"no {CONFIGS[0]} of a run in {folder}: settings are unknown, except for those in the games")
    return row


def _games(file: Path) -> list[Game]:
    """Return the finished games of a file; none if it doesn't exist or a run that is going on has just removed it."""
    try:
        return over(read_games(file))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
