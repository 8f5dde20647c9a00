"""A run's folder and its checkpoints. A checkpoint appears whole or not at all; a resumed run cuts what came after it."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from spy_env import Game, read_games, write_games
from trainers import disk
from trainers.config import Ckpt
from trainers.curriculum import Curriculum
from trainers.embedded.lineup import pool_at
from trainers.embedded.policy import Policy
from trainers.run_folder import append_line, cut_after, games_file, step_named, write_games_anew
from trainers.settings import MOVED, refuse_changes

VERSION = 3
STATE, PROGRESS, WATCHED = "trainer_state.pt", "progress.json", "watched.jsonl"
_STEP = re.compile(r"step_\d+")
FIXED = (  # what a resumed run must keep
    *MOVED.values(),
    *("algo.warm_start", "game", "rollout.batch_size", "rollout.n_samples_per_prompt", "ds.lora", "train.seed"),
    *("rollout.temperature", "rollout.max_new_tokens", "rollout.performing", "rollout.detection"),
    *("rollout.chat_template_kwargs", "data.max_len", "data.max_samples"),
    *("actor.model_name_or_path", "data.documents", "data.input_key", "eval.games", "opponents", "eval.opponent"),
)


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run after an iteration."""

    step: int
    documents: int  # played so far
    curriculum: Curriculum
    watched: tuple[Game, ...]  # the last games, for diagnostics


class RunFolder:
    """``config.json``, ``metrics.jsonl``, ``timings.jsonl``, ``games/``, ``checkpoints/step_N``, ``final/``."""

    def __init__(self, ckpt: Ckpt, pool: int = 0) -> None:
        """Open the folder that ``ckpt`` names. ``pool`` last checkpoints are kept for opponents to play with.

        Raises:
            ValueError: it holds a run already and resuming isn't asked for, or it can't be written.
        """
        self.path = Path(ckpt.output_dir)
        self.games, self.final = self.path / "games", self.path / "final"
        self._checkpoints, self._keep = self.path / "checkpoints", ckpt.max_num
        self._games_keep, self._save_steps, self._pool_size = ckpt.games_max_num, ckpt.save_steps, pool
        held = self._saved() or any((self.path / name).exists() for name in ("config.json", "metrics.jsonl"))
        if held and not ckpt.load_enable:
            raise ValueError(
                f"{self.path} holds a run already; choose another --ckpt.output_dir, or go on with --ckpt.load_enable"
            )
        try:
            for folder in (self.path, self.games, self._checkpoints):
                folder.mkdir(parents=True, exist_ok=True)
                if not os.access(folder, os.W_OK):  # better now than after the first games
                    raise PermissionError(f"no permission to write to {folder}")
                disk.mend(folder)
        except OSError as error:
            raise ValueError(f"{self.path} can't be written ({error}); choose another --ckpt.output_dir") from error

    def write_config(self, settings: dict[str, Any], facts: dict[str, Any]) -> None:
        """Write the settings (without secrets), and facts such as versions and the weights' SHA-256."""
        disk.write_whole(self.path / "config.json", json.dumps({"config": settings, **facts}, indent=2) + "\n")

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Append a line to one of ``LOGS``."""
        append_line(self.path / name, row)

    def write_games(self, file: Path, games: Sequence[Game]) -> None:
        """Write a file of games, in place of an earlier one."""
        write_games_anew(file, games)

    def trained_stages(self) -> dict[str, int]:
        """Count the iterations that trained each stage, over the whole run."""
        return dict(Counter(row["stage"] for row in disk.read_log(self.path / "metrics.jsonl")))

    def steps_of(self, name: str) -> list[int]:
        """Return the iterations that have a line in ``name``."""
        return [row["step"] for row in disk.read_log(self.path / name)]

    def evaluation_seconds(self) -> float:
        """Return how long the held-out games took before training."""
        rows = disk.read_log(self.path / "timings.jsonl")
        return next((row["evaluate_s"] for row in rows if row["step"] == 0), 0.0)

    def games_of(self, step: int) -> Path:
        """Return the path of an iteration's games."""
        return games_file(self.path, step)

    def checkpoint_of(self, step: int) -> Path:
        """Return the folder of the checkpoint after an iteration."""
        return self._checkpoints / f"step_{step}"

    def save(self, settings: dict[str, Any], policy: Policy, progress: Progress) -> None:
        """Write a checkpoint, and remove the oldest beyond ``--ckpt.max_num`` and games beyond ``--ckpt.games_max_num``."""
        with disk.new_folder(self.checkpoint_of(progress.step)) as folder:
            policy.export(folder)
            with (folder / STATE).open("wb") as file:
                torch.save(policy.state(), file)
            write_games(folder / WATCHED, progress.watched)
            row = {
                "version": VERSION,
                "step": progress.step,
                "documents": progress.documents,
                "curriculum": json.loads(progress.curriculum.to_json()),
                "config": settings,
                "sizes": {
                    str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()
                },
            }
            (folder / PROGRESS).write_text(json.dumps(row, indent=2), encoding="utf-8")
        self._prune(progress.step)

    def _pool(self, step: int) -> list[Path]:
        """Return the checkpoints that iterations after ``step`` may play against."""
        steps = pool_at(step + 1, self._save_steps, self._pool_size) if self._pool_size else ()
        return [self.checkpoint_of(step) for step in steps]

    def _saved(self) -> list[Path]:
        folders = [path for path in self._checkpoints.glob("step_*") if _STEP.fullmatch(path.name)]
        return sorted(folders, key=step_named)

    def _prune(self, step: int) -> None:
        """Remove old checkpoints and games. Games go only once a later checkpoint exists, since a resumed run needs them."""
        for old in self._saved()[: -self._keep]:
            if old not in self._pool(step):
                disk.remove_folder(old)
        if self._games_keep is not None:
            for file in self.games.glob("step_*.jsonl"):
                if step_named(file) <= step - self._games_keep:
                    file.unlink()

    def resume(self, settings: dict[str, Any], policy: Policy) -> Progress | None:
        """Load the last checkpoint, and cut lines and games written after it. None where there is none yet.

        Raises:
            ValueError: the checkpoint is damaged, of another version, or was made with other rules, task, rewards or
                adapters.
        """
        saved = self._saved()
        if not saved:
            cut_after(self.path, -1)
            return None
        before = f"go on from {saved[-2].name}" if saved[1:] else "begin again"
        try:
            row = _progress_of(saved[-1])
            _refuse_changes(row["config"], json.loads(json.dumps(settings)), str(saved[-1]))
            policy.load_state(_state_of(saved[-1]))
        except DamagedError as error:
            raise ValueError(f"{error}; the checkpoint is damaged: remove {saved[-1]} to {before}") from error
        cut_after(self.path, row["step"])
        self._prune(row["step"])
        curriculum = Curriculum.from_json(json.dumps(row["curriculum"]))
        return Progress(row["step"], row["documents"], curriculum, _watched_of(saved[-1]))


class DamagedError(Exception):
    """A file of a checkpoint can't be read."""


def _progress_of(folder: Path) -> dict[str, Any]:
    """Read a checkpoint's progress, and check that all its files have their full length."""
    file = folder / PROGRESS
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
        version = row["version"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DamagedError(f"{file} can't be read ({error!r})") from error
    if version != VERSION:
        raise ValueError(
            f"{folder} is of checkpoint version {version}; this package reads version {VERSION}. Go on with the spy-env "
            "that made it (config.json names it under versions), or begin a new run in another --ckpt.output_dir"
        )
    for name, size in row["sizes"].items():
        path = folder / name
        length = path.stat().st_size if path.exists() else 0
        if length != size:
            raise DamagedError(f"{path} has {length} of {size} bytes")
    return row


def _state_of(folder: Path) -> dict[str, Any]:
    file = folder / STATE
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise DamagedError(f"{file} can't be read ({type(error).__name__})") from error  # torch's texts fill a screen


def _watched_of(folder: Path) -> tuple[Game, ...]:
    """Read the games kept for diagnostics."""
    return tuple(read_games(folder / WATCHED))


def _refuse_changes(then: dict[str, Any], now: dict[str, Any], where: str) -> None:
    """Refuse changes of settings that baselines, averages and weights depend on."""
    fixed = [*FIXED, "ckpt.save_steps"] if "past" in then["opponents"].values() else FIXED  # it decides the pool
    refuse_changes(fixed, then, now, where)
