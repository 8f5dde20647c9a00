"""A run's folder and its checkpoints. A checkpoint appears whole or not at all; a resumed run cuts what came after it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from trainers.curriculum import Curriculum
from trainers.embedded.config import Config
from trainers.embedded.lineup import kept_for_pool
from trainers.embedded.policy import Policy

VERSION = 1
STATE, PROGRESS = "trainer_state.pt", "progress.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands after an iteration."""

    step: int
    documents: int  # consumed so far
    curriculum: Curriculum


class RunFolder:
    """``config.json``, ``metrics.jsonl``, ``timings.jsonl``, ``games/``, ``checkpoints/step_N``, ``final/``."""

    def __init__(self, config: Config) -> None:
        """Open the folder of ``config``.

        Raises:
            ValueError: it holds a run already and resuming isn't asked for, or it can't be written.
        """
        self.path = Path(config.ckpt.output_dir)
        self.games, self.final = self.path / "games", self.path / "final"
        self._checkpoints, self._keep = self.path / "checkpoints", config.ckpt.max_num
        self._config = config
        if (self.path / "config.json").exists() and not config.ckpt.load_enable:
            raise ValueError(
                f"{self.path} holds a run already; choose another --ckpt.output_dir, or go on with --ckpt.load_enable"
            )
        try:
            self.games.mkdir(parents=True, exist_ok=True)
            self._checkpoints.mkdir(exist_ok=True)
        except OSError as error:
            raise ValueError(f"{self.path} can't be written ({error}); choose another --ckpt.output_dir") from error

    def write_config(self, config: Config, facts: dict[str, Any]) -> None:
        """The whole config, and facts such as versions and the weights' SHA-256."""
        text = json.dumps({"config": asdict(config), **facts}, indent=2)
        (self.path / "config.json").write_text(text + "\n", encoding="utf-8")

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add a line to ``metrics.jsonl``, ``timings.jsonl`` or ``evaluations.jsonl``."""
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def trained_stages(self) -> dict[str, int]:
        """How many iterations trained which stage, over the whole run."""
        return dict(Counter(row["stage"] for row in self._rows("metrics.jsonl")))

    def steps_of(self, name: str) -> list[int]:
        """The iterations that have a line in ``name``."""
        return [row["step"] for row in self._rows(name)]

    def _rows(self, name: str) -> list[dict[str, Any]]:
        file = self.path / name
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def games_of(self, step: int) -> Path:
        """The file of an iteration's games."""
        return self.games / f"step_{step:06d}.jsonl"

    def checkpoint_of(self, step: int) -> Path:
        """The folder of the checkpoint after an iteration."""
        return self._checkpoints / f"step_{step}"

    def save(self, config: Config, policy: Policy, progress: Progress) -> None:
        """Write a checkpoint beside its place, move it there, and remove the oldest beyond ``--ckpt.max_num``."""
        place = self.checkpoint_of(progress.step)
        staging = self._checkpoints / f".{place.name}.partial"
        shutil.rmtree(staging, ignore_errors=True)
        policy.export(staging)
        torch.save(policy.state(), staging / STATE)
        row = {
            "version": VERSION,
            "step": progress.step,
            "documents": progress.documents,
            "curriculum": json.loads(progress.curriculum.to_json()),
            "config": asdict(config),
        }
        (staging / PROGRESS).write_text(json.dumps(row, indent=2), encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        staging.replace(place)
        for old in self._saved()[: -self._keep]:
            if old not in self._pool(progress.step):
                shutil.rmtree(old)

    def _pool(self, step: int) -> list[Path]:
        """The checkpoints that iterations after ``step`` may play against."""
        config = self._config
        steps = kept_for_pool(config.opponent_of.values(), step, config.ckpt.save_steps, config.opponents.pool)
        return [self.checkpoint_of(step) for step in steps]

    def _saved(self) -> list[Path]:
        return sorted(self._checkpoints.glob("step_*"), key=lambda path: int(path.name.removeprefix("step_")))

    def resume(self, config: Config, policy: Policy) -> Progress | None:
        """Load the last checkpoint, and cut lines and games written after it. None where there is none yet.

        Raises:
            ValueError: the checkpoint is of another version, or was made with other rules, task, rewards or adapters.
        """
        saved = self._saved()
        if not saved:
            self._cut(0)
            return None
        row = json.loads((saved[-1] / PROGRESS).read_text(encoding="utf-8"))
        if row["version"] != VERSION:
            raise ValueError(
                f"{saved[-1]} is of checkpoint version {row['version']}; this package reads version {VERSION}"
            )
        _refuse_changes(row["config"], json.loads(json.dumps(asdict(config))), str(saved[-1]))
        policy.load_state(torch.load(saved[-1] / STATE, map_location=policy.device, weights_only=True))
        self._cut(row["step"])
        return Progress(row["step"], row["documents"], Curriculum.from_json(json.dumps(row["curriculum"])))

    def _cut(self, step: int) -> None:
        for name in ("metrics.jsonl", "timings.jsonl", "evaluations.jsonl"):
            file = self.path / name
            if file.exists():
                kept = [line for line in file.read_bytes().splitlines(keepends=True) if _step_of(line) <= step]
                with file.open("r+b") as lines:
                    lines.truncate(sum(map(len, kept)))  # in one go: a run killed here loses nothing
        for file in self.games.glob("*_[0-9]*.jsonl"):  # not the evaluations before and after training
            if int(file.stem.rpartition("_")[2]) > step:
                file.unlink()


def _step_of(line: bytes) -> float:
    try:
        return json.loads(line)["step"]
    except ValueError:  # cut while being written
        return float("inf")


def _refuse_changes(then: dict[str, Any], now: dict[str, Any], where: str) -> None:
    """What baselines, averages and weights depend on must stay."""
    fixed = [
        ("game",),
        ("rollout", "batch_size"),
        ("rollout", "n_samples_per_prompt"),
        ("ds", "lora"),
        ("train", "seed"),
    ]
    fixed += [("rollout", name) for name in ("temperature", "max_new_tokens", "performing", "detection")]
    fixed += [("rollout", "chat_template_kwargs"), ("data", "max_len"), ("data", "max_samples")]
    fixed += [("actor", "model_name_or_path"), ("data", "documents"), ("data", "input_key"), ("eval", "games")]
    fixed += [("opponents",), ("eval", "opponent")]
    if "past" in then["opponents"].values():
        fixed += [("ckpt", "save_steps")]  # which checkpoints are in the pool
    for path in fixed:
        old, new = then, now
        for key in path:
            old, new = old[key], new[key]
        if old != new:
            flag, old, new = _setting(".".join(path), old, new)
            raise ValueError(
                f"{where} was made with --{flag} {_said(old)}, and now it is {_said(new)}; resume with the same, or begin a new run "
                "in another --ckpt.output_dir"
            )


def _said(value: Any) -> str:
    return str(value) or "''"


def _setting(flag: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """The first single setting in which two groups differ."""
    while isinstance(old, dict):
        name = next(name for name in {**old, **new} if old.get(name) != new.get(name))
        flag, old, new = f"{flag}.{name}", old.get(name), new.get(name)
    return flag, old, new
