"""Read a config from a file: TOML or JSON, or one that ships with the trainer."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import typing
from pathlib import Path
from typing import Any

from trainers.embedded.config import Config


def read_config(path: str) -> Config:
    """A config from a TOML or JSON file, or a shipped one by name (``first_run``). What it leaves out has its default.

    Raises:
        ValueError: no such file, not TOML or JSON, a key that isn't known, or a value of the wrong kind.
    """
    shipped = {file.stem: file for file in Path(__file__).parent.glob("*.toml")}
    file = Path(path) if Path(path).is_file() else shipped.get(path, Path(path))
    if not file.is_file():
        raise ValueError(f"no config at {path!r}; give a .toml or .json file, or the shipped 'first_run'")
    try:
        text = file.read_text(encoding="utf-8")
        row = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file}: {error}") from error
    return from_dict(Config, row["config"] if isinstance(row, dict) and "config" in row else row, str(file))


def from_dict(kind: Any, row: Any, where: str) -> Any:
    """A nested dataclass from nested dicts, as a file holds them."""
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {row!r}; give a group of settings")
    types = typing.get_type_hints(kind)
    if unknown := set(row) - set(types):
        raise ValueError(f"{where}: unknown {sorted(unknown)}; {kind.__name__} knows {sorted(types)}")
    values = {}
    for name, value in row.items():
        if dataclasses.is_dataclass(types[name]):
            values[name] = from_dict(types[name], value, f"{where}: {name}")
        else:
            values[name] = tuple(value) if isinstance(value, list) else value
            if not _fits(values[name], types[name]):
                raise ValueError(f"{where}: {name} is {value!r}; it takes {kind.__annotations__[name]}")
    return kind(**values)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated kind; whole numbers are floats too."""
    options = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple) and len(value) == len(options) and all(map(_fits, value, options))
    if options:
        return any(_fits(value, option) for option in options)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
