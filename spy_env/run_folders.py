"""Where a run keeps its games, and the rules that it was paid by: what every reader of saved games needs to know of it."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

from spy_env.rewards import PRESETS, RewardRules

LOGS = ("metrics.jsonl", "timings.jsonl", "evaluations.jsonl")  # lines that are no games


def games_files(path: Path) -> list[Path]:
    """The files of games at a path: itself, or those in a folder and in its ``games``.

    Raises:
        ValueError: there are none.
    """
    if path.is_file():
        return [path]
    found = sorted([*path.glob("*.jsonl"), *path.glob("games/*.jsonl")]) if path.is_dir() else []
    found = [file for file in found if file.name not in LOGS]
    if not found:
        raise ValueError(f"no games at {path}; give a .jsonl file of games, or a run's folder such as outputs/NAME")
    return found


def rules_beside(file: Path) -> RewardRules:
    """The reward rules of the run whose folder holds a file of games; the default ones where there is no run.

    Raises:
        ValueError: the run's ``config.json`` can't be read.
    """
    config = file.parent.parent / "config.json"
    if not config.is_file():
        return RewardRules()
    try:
        game = json.loads(config.read_text(encoding="utf-8"))["config"]["game"]
        given = {price.name: game[price.name] for price in fields(RewardRules) if game[price.name] is not None}
        return replace(PRESETS[game["rewards"]], **given)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{config} is no run's config ({error!r}); move {file} away from it, or mend it") from error
