"""The model card of a trained model: its origin, its training, and the measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from spy_env import load_task
from trainers.config import Config
from trainers.embedded.evaluation import Comparison

_CARD = """\
---
base_model: {base}
library_name: transformers
tags: [spyrl, self-play]
---
# {base}, trained by "Who is the spy?" on {task}

{kind} without labels, reward model or judge: {players} players do the task, one of them with a masked document, then
vote on who that was. The votes are the reward.

| | |
|---|---|
| base model | `{base}`, weights SHA-256 `{sha256}` |
| task | {task} |
| documents | {documents} |
| iterations | {iterations}, {games} games each, stages {stages} |
| rules | {rules} |
| rewards | {rewards} |
| adaptation | {adaptation} |
| learning rate | {lr} |
| temperature | {temperature} |
| seed | {seed} |

## Measured

{measured}

The chat template and the tokenizer are the base model's, unchanged. All settings are in the run's `config.json`.
"""


def model_card(
    config: Config,
    facts: Mapping[str, Any],
    stages: Mapping[str, int],
    compared: Comparison,
) -> str:
    """Return the card as Markdown. ``stages`` counts iterations by trained stage."""
    lora = config.ds.lora
    return _CARD.format(
        kind=f"Play against opponents ({_opponents(config)})" if config.opponent_of else "Self-play",
        base=facts["base_model"],
        sha256=facts["weights_sha256"],
        task=config.game.task,
        players=config.game.players,
        documents=config.data.documents or "the task's own samples",
        iterations=sum(stages.values()),
        games=config.games_per_iteration,
        stages=", ".join(f"{count} {stage}" for stage, count in stages.items()) or "none",
        rules=f"`{json.dumps(asdict(config.game.rules.for_task(load_task(config.game.task))))}`",
        rewards=f"`{json.dumps(asdict(config.game.reward_rules))}`",
        adaptation=f"LoRA, rank {lora.rank}, alpha {lora.alpha}, merged" if lora.rank else "full fine-tuning",
        lr=config.actor.adam.lr,
        temperature=config.rollout.temperature,
        seed=config.train.seed,
        measured=_measured(compared, config.eval.opponent),
    )


def _opponents(config: Config) -> str:
    return ", ".join(f"{role}: `{player}`" for role, player in config.opponent_of.items())


def _measured(compared: Comparison, opponent: str) -> str:
    if not compared.measures:
        return "Nothing was measured (`--eval.games 0`)."
    against = f" Lines that begin with `learner` are against `{opponent}`." if opponent else ""
    head = f"The same deals before and after training, on held-out documents; 95 % intervals, changes paired by deal.{against}\n\n| | before | after | change | n |\n|---|---|---|---|---|\n"
    return head + "\n".join("| " + " | ".join(row) + " |" for row in compared.rows)
