"""Whole trainings in the tiny world: a second each."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.trainers import tiny_world
from trainers.config import Config
from trainers.embedded.display import Display
from trainers.embedded.loop import Result, train
from trainers.settings import from_dict

HELD_OUT, TRAINED_ON, A_STEP = 2, 7, 3  # documents; six iterations begin the corpus again


def write_corpus(file: Path, count: int = HELD_OUT + TRAINED_ON) -> Path:
    """Documents as JSON lines."""
    rows = [json.dumps({"id": document.id, "text": document.text}) for document in tiny_world.documents(count)]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def settings(place: Path, model: Path, output: str = "run", **groups: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Nested settings of a run in ``place``: stages alternate, three games an iteration; ``groups`` are laid over."""
    documents = place / "documents.jsonl"
    if not documents.exists():
        write_corpus(documents)
    rows: dict[str, dict[str, Any]] = {
        "game": {"task": tiny_world.TASK, "players": 4, "unreadable": -1.0},
        "algo": {"schedule": "cycle", "cycle": [2, 1]},
        "actor": {"model_name_or_path": str(model), "adam": {"lr": 1e-3}},
        "rollout": {"batch_size": A_STEP, "n_samples_per_prompt": 4, "max_new_tokens": 4},
        "train": {"iterations": 6, "micro_batch_size": 100},
        "data": {"documents": str(documents), "max_len": 64},
        "eval": {"games": HELD_OUT},
        "ckpt": {"output_dir": str(place / output), "save_steps": 1, "max_num": 10},
    }
    return {name: {**rows.get(name, {}), **groups.get(name, {})} for name in {**rows, **groups}}


def config_of(place: Path, model: Path, output: str = "run", **groups: dict[str, Any]) -> Config:
    """The settings as a config."""
    return from_dict(Config, settings(place, model, output, **groups), "test")


def run(config: Config, display: type[Display] = Display) -> Result:
    """Train as where nobody watches."""
    with display(Console(file=io.StringIO(), force_terminal=False), config.train.iterations) as shown:
        return train(config, config.actor.model_name_or_path, shown)


def made(folder: Path) -> dict[str, bytes]:
    """What a run made that must not depend on clock, machine time or interruptions."""
    files = [folder / "metrics.jsonl", *sorted(folder.glob("games/*")), folder / "final" / "model.safetensors"]
    return {file.name: file.read_bytes() for file in files}
