"""From played games to TRL's rows: one a trained reply, and blank ones where TRL wants more. Pure, and without TRL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spy_env import Stage
from trainers.curriculum import Key
from trainers.metrics import mean
from trainers.samples import Sample


@dataclass(frozen=True, slots=True)
class Row:
    """What TRL gets in a row's place. A blank row has one token, which isn't trained."""

    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float
    advantage: float
    blank: bool = False


def rows_of(
    samples: Sequence[Sample], worth: Mapping[Stage, Mapping[Key, float]], rows_a_game: int, pad: int
) -> list[Row]:
    """Every sample once, game by game, and each game filled up with blank rows."""
    games: dict[str, list[Row]] = {}
    for sample in samples:
        advantage = worth[sample.stage][sample.game, sample.seat]
        row = Row(sample.prompt_ids, sample.ids, sample.logprobs, sample.reward, advantage)
        games.setdefault(sample.game, []).append(row)
    rows = []
    for game in games.values():
        blank = Row(min((row.prompt_ids for row in game), key=len), (pad,), (0.0,), 0.0, 0.0, blank=True)
        rows += [*game, *[blank] * (rows_a_game - len(game))]
    return rows


def as_rollout(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """What TRL's ``rollout_func`` returns: tokens as they were sampled; ``earned`` goes to the reward function."""
    return {
        "prompt_ids": [list(row.prompt_ids) for row in rows],
        "completion_ids": [list(row.ids) for row in rows],
        "logprobs": [list(row.logprobs) for row in rows],
        "env_mask": [[int(not row.blank)] * len(row.ids) for row in rows],
        "earned": [row.reward for row in rows],
    }


def trained_rows(scored: Mapping[str, Any], rows: Sequence[Row], parts: int) -> dict[str, Any]:
    """TRL's tensors with our advantages, and the ratio against what was sampled from.

    Blank rows go, but for the few (fewer than ``parts``) that let the others be cut into equal micro-batches.
    """
    import torch

    trained = [i for i, row in enumerate(rows) if not row.blank]
    blank = [i for i, row in enumerate(rows) if row.blank]
    kept = torch.tensor(trained + blank[: -len(trained) % parts])
    batch = {name: value[kept.to(value.device)] if value.ndim else value for name, value in scored.items()}
    advantages = torch.tensor([row.advantage for row in rows])[kept]
    batch["advantages"] = advantages.to(scored["advantages"].device)
    batch["old_per_token_logps"] = batch.pop("sampling_per_token_logps")
    return batch


def length_metrics(samples: Sequence[Sample]) -> dict[str, float]:
    """TRL's other numbers about replies, over those that are trained; its own would count blank rows."""
    lengths = [len(sample.ids) for sample in samples]
    ended = [len(sample.ids) for sample in samples if not sample.truncated] or [0]
    return {
        "completions/min_length": min(lengths),
        "completions/max_length": max(lengths),
        "completions/mean_terminated_length": mean(ended),
        "completions/min_terminated_length": min(ended),
        "completions/max_terminated_length": max(ended),
    }
