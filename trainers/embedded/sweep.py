"""A sweep: settings x seeds, read from a file and laid over one config. What is to be run; ``sweep_runs`` runs it.

Everything that is wrong with the file, with a setting or with what earlier runs left is said here, before anything runs.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainers.config import Config
from trainers.settings import from_dict, read_config

KEYS = ("seeds", "settings", "measures", "metrics", "last")
METRICS = ("game/accuracy", "game/readable", "completions/mean_length", "kl")  # in the table, unless others are named
LAST = 10  # iterations that a training metric is averaged over
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
OWN = {  # what a setting may not say: the sweep does
    ("train", "seed"): "give seeds in the sweep's list",
    ("ckpt", "output_dir"): "a run's folder is --ckpt.output_dir/SETTING/seed_N",
    ("ckpt", "load_enable"): "a sweep always goes on with what it finds",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One training of a sweep."""

    setting: str
    seed: int
    config: Config

    @property
    def folder(self) -> Path:
        """Where its results go."""
        return Path(self.config.ckpt.output_dir)


@dataclass(frozen=True, slots=True)
class Sweep:
    """All runs, in order: every setting with the first seed, then with the second, so that early tables compare all."""

    folder: Path
    settings: Mapping[str, Mapping[str, Any]]  # what each lays over the common config
    seeds: tuple[int, ...]
    runs: tuple[Run, ...]
    measures: tuple[str, ...] | None  # of the held-out games, in the table; None: all
    metrics: tuple[str, ...]  # of training, in the table
    last: int  # iterations that a metric is averaged over

    def of_setting(self, setting: str) -> list[Run]:
        """The runs of one setting."""
        return [run for run in self.runs if run.setting == setting]


def read_sweep(path: str, common: Config) -> Sweep:
    """The sweep in a TOML or JSON file, its settings laid over ``common``.

    Raises:
        ValueError: the file can't be read, lacks seeds or settings, names something unknown, or a setting can't be used.
    """
    row = _read(Path(path))
    if unknown := sorted(set(row) - set(KEYS)):
        raise ValueError(f"{path}: unknown {unknown}; a sweep knows {sorted(KEYS)}")
    seeds, settings = _seeds(path, row), _settings(path, row)
    last = row.get("last", LAST)
    if not _whole(last) or last < 1:
        raise ValueError(f"{path}: last is {last!r}; give the number of iterations to average over, at least 1")
    runs = tuple(
        Run(name, seed, _config(path, common, name, settings[name], seed)) for seed in seeds for name in settings
    )
    metrics = _names(path, "metrics", row.get("metrics"))
    for run in runs:
        _refuse_changes(run)
    return Sweep(
        folder=Path(common.ckpt.output_dir),
        settings=settings,
        seeds=seeds,
        runs=runs,
        measures=_names(path, "measures", row.get("measures")),
        metrics=METRICS if metrics is None else metrics,
        last=last,
    )


def _read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ValueError(f"no sweep at {str(file)!r}; give a .toml or .json file with seeds and settings")
    try:
        text = file.read_text(encoding="utf-8")
        row = json.loads(text, object_pairs_hook=_once) if file.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # both parsers', and a name that stands twice
        raise ValueError(f"{file}: {error}") from error
    if not isinstance(row, dict):
        raise ValueError(f"{file} is {row!r}; give an object with seeds and settings")
    return row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; the second of two equal names would silently win."""
    if twice := [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]:
        raise ValueError(f"{twice[0]!r} stands twice in one object; give each its own name")
    return dict(pairs)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _seeds(path: str, row: Mapping[str, Any]) -> tuple[int, ...]:
    seeds = row.get("seeds")
    if not isinstance(seeds, list) or not seeds or not all(map(_whole, seeds)):
        raise ValueError(f"{path}: seeds is {seeds!r}; give a list of whole numbers, such as [0, 1, 2]")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{path}: seeds is {seeds!r}, where one stands twice; the same run again tells nothing new")
    return tuple(seeds)


def _settings(path: str, row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    settings = row.get("settings")
    if not isinstance(settings, dict) or not settings:
        raise ValueError(f"{path}: settings is {settings!r}; give at least one, such as [settings.base]")
    for name, over in settings.items():
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{path}: setting {name!r} can't name a folder; use at most 100 letters, digits, - and _, no sign first"
            )
        if not isinstance(over, dict):
            raise ValueError(f"{path}: setting {name!r} is {over!r}; give groups of flags, such as game = {{...}}")
    folded = Counter(name.casefold() for name in settings)
    if twice := [name for name in settings if folded[name.casefold()] > 1]:
        raise ValueError(f"{path}: settings {twice} differ in case alone, and some file systems don't tell them apart")
    return settings


def _names(path: str, key: str, names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path}: {key} is {names!r}; give a list of names")
    return tuple(names)


def _config(path: str, common: Config, name: str, over: Mapping[str, Any], seed: int) -> Config:
    for (group, field), instead in OWN.items():
        if isinstance(over.get(group), dict) and field in over[group]:
            raise ValueError(f"{path}: setting {name!r} says {group}.{field}; {instead}")
    wandb = over["logger"].get("wandb") if isinstance(over.get("logger"), dict) else None
    if isinstance(wandb, dict) and "key" in wandb:
        raise ValueError(
            f"{path}: setting {name!r} says logger.wandb.key, which would be written down; set WANDB_API_KEY"
        )
    place = Path(name, f"seed_{seed}")
    rows = _over(asdict(common), over)
    try:
        config = from_dict(Config, rows, "config")
    except ValueError as error:
        raise ValueError(f"{path}: setting {name!r}: {error}") from error
    board = config.logger.tensorboard_dir
    own = {
        "train": {"seed": seed},
        "ckpt": {"output_dir": str(Path(common.ckpt.output_dir) / place), "load_enable": True},
        "logger": {"tensorboard_dir": str(Path(board) / place) if board else None},
    }
    return from_dict(Config, _over(asdict(config), own), "config")


def _over(rows: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings with others laid over them."""
    return {
        **rows,
        **{
            name: _over(rows[name], value) if isinstance(value, dict) and isinstance(rows.get(name), dict) else value
            for name, value in given.items()
        },
    }


def _refuse_changes(run: Run) -> None:
    """Runs made with other settings can't stand in one table with these."""
    file = run.folder / "config.json"
    if not file.exists() or not file.stat().st_size:  # a run killed as it began to write it goes on
        return
    try:
        earlier = read_config(str(file))
    except ValueError as error:
        raise ValueError(f"{error}; remove {run.folder} to run it anew") from error
    then, now = _flags(asdict(earlier)), _flags(asdict(run.config))
    for flag, value in now.items():
        if flag.partition(".")[0] not in ("ckpt", "logger") and then[flag] != value:
            raise ValueError(
                f"{run.folder} holds a run made with --{flag} {then[flag]}, and now it is {value}; give the sweep another "
                "--ckpt.output_dir, or remove that folder to run it anew"
            )


def _flags(rows: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in rows.items():
        flat |= _flags(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
