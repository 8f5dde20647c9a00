"""What a run leaves on disk: logs, games, and what is cut when it goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spy_env import Game, write_games
from trainers import disk

LOGS = ("metrics.jsonl", "timings.jsonl", "evaluations.jsonl")


def append_line(file: Path, row: dict[str, Any]) -> None:
    """Append a line to a log."""
    disk.append(file, json.dumps(row) + "\n")


def games_file(folder: Path, step: int, kind: str = "step") -> Path:
    """Return the path of an iteration's games in a run's folder."""
    return folder / "games" / f"{kind}_{step:06d}.jsonl"


def write_games_anew(file: Path, games: Sequence[Game]) -> None:
    """Write a file of games, in place of an earlier one."""
    with disk.writing(file):
        file.unlink(missing_ok=True)
        write_games(file, games)
        if games:
            disk.sync(file)


def cut_after(folder: Path, step: int) -> None:
    """Remove the lines and games of a run's folder that come after iteration ``step``."""
    for name in LOGS:
        file = folder / name
        if file.exists():
            kept = [line for line in file.read_bytes().splitlines(keepends=True) if _step_of(line) <= step]
            with file.open("r+b") as lines:
                lines.truncate(sum(map(len, kept)))  # in one go: a run killed here loses nothing
    for file in (folder / "games").glob("*_[0-9]*.jsonl"):  # not the evaluations before and after training
        if step_named(file) > step:
            file.unlink()


def step_named(path: Path) -> int:
    """Return the iteration in the name of a checkpoint or a file of games."""
    return int(path.stem.rpartition("_")[2])


def _step_of(line: bytes) -> float:
    try:
        return json.loads(line)["step"]
    except ValueError:  # cut while being written
        return float("inf")
