"""Where saved games come from: the run's reward rules and baselines, read from its folder.

A game's record holds none of it, since it is the same game whoever trains on it. This is the home of log names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from spy_env.rewards import PRESETS, RewardRules
from spy_env.seats import Seat

LOGS = ("metrics.jsonl", "timings.jsonl", "evaluations.jsonl")
CONFIGS = ("config.json", "spyrl.json")  # the second where the first is a model's own, as in TRL's folder
_STEP = re.compile(r"step_(\d+)")  # the file of an iteration's games
_BASELINE, _OPPONENT = "game/baseline/", "opponent/"


@dataclass(frozen=True, slots=True)
class Origin:
    """The run of a saved game, and the rules and baselines by which it was trained on."""

    run: str  # the name of the run's folder, or of the file's
    point: str  # the place in the run, such as "step 10" or "eval before"; outside of a run the file's name
    rewards: RewardRules
    step: int | None = None  # the iteration that trained on it, if one is known
    baselines: Mapping[str, float] | None = None  # as the iteration read them, if known
    opponents: Mapping[str, Seat] = field(default_factory=dict)  # by role: players who don't learn
    normalised: bool = False  # performing advantages are divided by their std
    shuffled: bool = False  # advantages are dealt out at random (the control)


def trained_files(path: Path) -> list[Path]:
    """List the files of games that a run trained on, without evaluations; if no file is named by an iteration, all.

    Raises:
        ValueError: there are none.
    """
    found = games_files(path)
    return [file for file in found if step_of(file) is not None] or found


def step_of(file: Path) -> int | None:
    """Return the iteration in the name of a file of games, if there is one."""
    number = _STEP.fullmatch(file.stem)
    return int(number[1]) if number else None


def games_files(path: Path) -> list[Path]:
    """List the files of games in a run's folder, or the file itself.

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


def origin_of(file: Path, rewards: RewardRules | None = None) -> Origin:
    """Find the origin of a file's games. Baselines mean nothing under other reward rules than the run's."""
    file = file.resolve()
    folder = file.parent.parent if file.parent.name == "games" else file.parent
    settings = _settings_of(folder)
    origin = Origin(folder.name, _point(file.stem), rewards or _rules_of(settings))
    step = step_of(file)
    if not settings or step is None:
        return origin
    before, own = _metrics_of(folder, (step - 1, step))
    baselines = {key.removeprefix(_BASELINE): value for key, value in before.items() if key.startswith(_BASELINE)}
    known = bool(before) or step == 1  # there are none before the first iteration
    return replace(
        origin,
        step=step,
        baselines=(baselines if settings.get("rae", True) else {})
        if known and origin.rewards == _rules_of(settings)
        else None,
        opponents={key.removeprefix(_OPPONENT): name for key, name in own.items() if key.startswith(_OPPONENT)},
        normalised=bool(settings.get("normalise_performing")),
        shuffled=bool(settings.get("shuffle_advantages")),
    )


def _point(stem: str) -> str:
    return " ".join(part.lstrip("0") or "0" if part.isdecimal() else part for part in stem.split("_"))


def config_row(folder: Path) -> dict[str, Any]:
    """Read a run's config file, whose settings are under ``config``; empty if there is no run.

    Raises:
        ValueError: the file can't be read.
    """
    for file in (folder / name for name in CONFIGS):
        try:
            row = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        except ValueError as error:
            raise ValueError(f"{file} can't be read ({error})") from error
        if isinstance(row, dict) and isinstance(row.get("config"), dict):
            return row
    return {}


def _settings_of(folder: Path) -> dict[str, Any]:
    """Return the settings of the game and the algorithm in a run's config, without their groups' names.

    Version 0.1 kept settings of the algorithm, such as ``rae``, among the game's, so both groups are read.
    """
    config = config_row(folder).get("config", {})
    groups = (config.get("game"), config.get("algo"))
    return {name: value for group in groups if isinstance(group, dict) for name, value in group.items()}


def _rules_of(settings: Mapping[str, Any]) -> RewardRules:
    """Return the reward rules of a run, or the default ones."""
    preset = settings.get("rewards", "spyrl")
    if preset not in PRESETS:
        raise ValueError(f"the run's config.json names the rewards {preset!r}; this package knows {sorted(PRESETS)}")
    given = {price.name: value for price in fields(RewardRules) if (value := settings.get(price.name)) is not None}
    for name, value in given.items():
        if not isinstance(value, int | float):
            raise ValueError(f"the run's config.json says that {name} is {value!r}; a price is a number")
    return replace(PRESETS[preset], **given)


def _metrics_of(folder: Path, steps: tuple[int, int]) -> list[dict[str, Any]]:
    """Read the logged metrics of some iterations; empty for those without."""
    file, found = folder / "metrics.jsonl", dict[int, dict[str, Any]]()
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        if not any(f'"step": {step}' in line for step in steps):  # skip other lines cheaply, since logs are long
            continue
        try:
            row = json.loads(line)
        except ValueError:  # a line that was cut
            continue
        found[row.get("step")] = row
    return [found.get(step, {}) for step in steps]
