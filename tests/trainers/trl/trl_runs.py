"""Trainings of TRL in the tiny world, and an engine that remembers replies. TRL is imported when a run is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spy_env import Game, read_games
from tests.trainers import tiny_runs, tiny_world
from trainers.config import Algo, Data, GameConfig
from trainers.engines import Failed, Reply, Request
from trainers.run_folder import games_file
from trainers.settings import MOVED
from trainers.trl.config import Games

PLAYERS, GAMES = 4, 3
SETTINGS: dict[str, Any] = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "disable_dropout": True,
    "per_device_train_batch_size": GAMES * PLAYERS,
    "num_generations": PLAYERS,
    "max_completion_length": 4,
    "max_steps": 6,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant",
    "beta": 0.02,
    "logging_steps": 1,
    "save_steps": 3,
    "report_to": "none",
    "disable_tqdm": True,
}


def games_of(place: Path, **settings: Any) -> Games:
    """What is played: stages alternate, three games of four per step; settings of ``game`` and ``algo`` are laid over."""
    documents = place / "documents.jsonl"
    if not documents.exists():
        tiny_runs.write_corpus(documents)
    game = {"task": tiny_world.TASK, "players": PLAYERS, "unreadable": -1.0}
    algo = {"schedule": "cycle", "cycle": (2, 1)}
    for name, value in settings.items():
        (algo if f"game.{name}" in MOVED else game)[name] = value
    return Games(GameConfig(**game), Algo(**algo), Data(documents=str(documents), max_len=64))


def trainer_of(place: Path, output: str, lora: bool = False, games: Games | None = None, **args: Any) -> Any:
    """A trainer of the model in ``place``, writing into ``output`` there."""
    from peft import LoraConfig
    from trl import GRPOConfig

    from trainers.trl.trainer import SpyTrainer

    adapter = LoraConfig(r=2, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM") if lora else None
    settings = GRPOConfig(str(place / output), **{**SETTINGS, **args})
    return SpyTrainer(str(place / "model"), settings, games or games_of(place), peft_config=adapter)


class Remembering:
    """An engine that passes requests on and keeps the replies by the requests' seeds."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.replies = engine, dict[str, Reply]()

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        replies = self.engine.generate(requests)
        self.replies |= {request.seed: reply for request, reply in zip(requests, replies, strict=True)}
        return replies

    def count_tokens(self, prompt: str, prefill: str) -> int:
        return self.engine.count_tokens(prompt, prefill)


def batches_at_the_loss(trainer: Any) -> list[dict[str, Any]]:
    """The micro-batches that TRL computes losses of, as they come."""
    seen, compute = [], trainer.compute_loss

    def compute_loss(model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        seen.append(inputs)
        return compute(model, inputs, *args, **kwargs)

    trainer.compute_loss = compute_loss
    return seen


def rows_at_the_loss(batches: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """(prompt ids, reply ids, log-probabilities, advantage) of each row that isn't blank, padding taken off."""
    rows = []
    for batch in batches:
        mask = batch["completion_mask"] * batch["tool_mask"]
        for i, trained in enumerate(mask.bool()):
            if trained.any():
                prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()]
                reply, old = (batch[name][i][trained] for name in ("completion_ids", "old_per_token_logps"))
                values = [rounded(old), round(batch["advantages"][i].item(), 3)]
                rows.append((tuple(prompt.tolist()), tuple(reply.tolist()), *values))
    return sorted(rows)


def rounded(values: Any) -> tuple[float, ...]:
    """Numbers that can be compared and sorted."""
    return tuple(round(value, 5) for value in values.tolist())


def lines_of(folder: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def games_in(folder: Path, step: int) -> list[Game]:
    """The games of a step."""
    return list(read_games(games_file(folder, step)))
