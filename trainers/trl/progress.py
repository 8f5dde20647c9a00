"""Where a run stands: documents read and curriculum. Kept in each of TRL's checkpoints, as ``curriculum.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainers import disk
from trainers.curriculum import Curriculum

STATE, VERSION = "curriculum.json", 1


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands after as many steps as its curriculum has iterations."""

    documents: int  # consumed so far
    curriculum: Curriculum

    @property
    def step(self) -> int:
        """The steps that are over: TRL's global step."""
        return self.curriculum.iteration


def write_progress(checkpoint: Path, progress: Progress, settings: Mapping[str, Any]) -> None:
    """Put it into a checkpoint."""
    row = {"version": VERSION, "documents": progress.documents, "settings": dict(settings)}
    row["curriculum"] = json.loads(progress.curriculum.to_json())
    disk.write_whole(checkpoint / STATE, json.dumps(row, indent=2) + "\n")


def read_progress(checkpoint: Path, settings: Mapping[str, Any]) -> Progress:
    """What ``write_progress`` put there.

    Raises:
        ValueError: it isn't there or can't be read, or the run had other settings.
    """
    file = checkpoint / STATE
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
        found, then = row["version"], row["settings"]
        progress = Progress(row["documents"], Curriculum.from_json(json.dumps(row["curriculum"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{file} can't be read ({error!r}), and the run can't go on without it; give resume_from_checkpoint the folder of "
            "an older checkpoint, or begin a new run in another output_dir"
        ) from error
    now = json.loads(json.dumps(dict(settings)))
    changed = [name for name in now if name not in then or then[name] != now[name]]
    if found != VERSION or changed:
        name = changed[0] if changed else "version"
        old, new = (then.get(name), now[name]) if changed else (found, VERSION)
        raise ValueError(
            f"{checkpoint} was made with {name} {old!r}, and now it is {new!r}; resume with the same, or begin a new run in "
            "another output_dir"
        )
    return progress
