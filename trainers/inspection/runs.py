"""A run as it lies on the disk: of the embedded trainer or of OpenRLHF's folder, finished, stopped or still going on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from spy_env import Game, read_games
from spy_env.diagnostics import over
from spy_env.viewer.origin import CONFIGS, LOGS, config_row, games_files, step_of, trained_files


@dataclass(frozen=True)
class Run:
    """A run's folder and what was read of it. ``notes`` say what could not be read."""

    name: str
    folder: Path
    config: dict[str, Any]
    rows: tuple[dict[str, Any], ...]
    evaluations: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]

    @property
    def inspection(self) -> Path:
        """Where what is found out goes: into the run's folder, beside a lone file of games."""
        return (self.folder if self.folder.is_dir() else self.folder.parent) / "inspection"

    def curve(self, metric: str) -> list[tuple[int, float]]:
        """(iteration, value) wherever a metric is a finite number; of ``eval/...``, from the evaluations."""
        prefix, _, name = metric.partition("/")
        rows, key = (self.evaluations, name) if prefix == "eval" else (self.rows, metric)
        return [(row["step"], float(row[key])) for row in rows if _is_number(row.get(key))]

    def names_under(self, prefix: str) -> list[str]:
        """The metrics that begin with ``prefix``, each once."""
        return list(dict.fromkeys(name for row in self.rows for name in row if name.startswith(prefix)))

    @property
    def stages(self) -> list[tuple[int, str]]:
        """The trained stage by iteration."""
        return [(row["step"], str(row["stage"])) for row in self.rows if "stage" in row]

    @property
    def chance(self) -> float | None:
        """The accuracy of a vote at random, where the config or a game tells how many play."""
        game = self.config.get("config", {}).get("game")
        players = game.get("players") if isinstance(game, dict) else None
        if not isinstance(players, int) and self.games_by_step:
            players = self.games_by_step[0][1].rules.players
        return 1 / players if isinstance(players, int) and players else None

    @cached_property
    def games_by_step(self) -> tuple[tuple[int, Game], ...]:
        """The games that were trained on and are over, by iteration; of a folder that holds no run, all its games."""
        try:
            files = trained_files(self.folder)
        except ValueError:
            return ()
        steps = {
            file: step_of(file) or number for number, file in enumerate(files, start=1)
        }  # all are named by one, or none
        return tuple((step, game) for file, step in steps.items() for game in _games(file))


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """All runs, under names that differ.

    Raises:
        ValueError: a folder isn't there or holds neither metrics nor games.
    """
    parts = [folder.resolve().parts for folder in folders]
    length = 1
    while length < max(map(len, parts)) and len({part[-length:] for part in parts}) < len(set(parts)):
        length += 1
    runs = []
    for folder, part in {part: (folder, part) for folder, part in zip(folders, parts, strict=True)}.values():
        runs.append(_read_run(folder, "/".join(part[-length:])))
    return runs


def _read_run(folder: Path, name: str) -> Run:
    held = [log for log in LOGS if (folder / log).is_file()]
    if not held:
        games_files(folder)  # says what to give instead
    notes: list[str] = []
    rows, evaluations = (_lines(folder / log, notes) for log in ("metrics.jsonl", "evaluations.jsonl"))
    return Run(name, folder, _config(folder, notes), rows, evaluations, tuple(notes))


def _lines(file: Path, notes: list[str]) -> tuple[dict[str, Any], ...]:
    """The lines that are whole; a last one without a line break isn't there yet, a broken one before it is told."""
    lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict) and isinstance(row.get("step"), int) and line.endswith(b"\n"):
            rows.append(row)
        elif line.endswith(b"\n"):
            notes.append(f"{file}:{number} can't be read and is left out")
    return tuple(rows)


def _config(folder: Path, notes: list[str]) -> dict[str, Any]:
    """What a run wrote of its settings; nothing, with a note, where that can't be told."""
    try:
        row = config_row(folder)
    except ValueError as error:
        notes.append(str(error))
        return {}
    if not row:
        held = [name for name in CONFIGS if (folder / name).is_file()]
        said = f"{folder / held[0]} is no run's config" if held else f"no {CONFIGS[0]} in {folder}"
        notes.append(f"{said}: what isn't in the games is unknown")
    return row


def _games(file: Path) -> list[Game]:
    """The games of a file that are over; none of one that a run going on has just removed."""
    try:
        return over(read_games(file))
    except FileNotFoundError:
        return []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
