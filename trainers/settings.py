"""A trainer's settings, nested dataclasses with dotted flags: read from files, checked, and kept when a run goes on."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def read_settings(file: Path) -> Any:
    """What a TOML or JSON file holds, as it stands there.

    Raises:
        ValueError: not TOML or JSON.
    """
    try:
        text = file.read_text(encoding="utf-8")
        return json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file}: {error}") from error


def from_dict(kind: Any, row: Any, where: str) -> Any:
    """A nested dataclass from nested dicts, as a file holds them.

    Raises:
        ValueError: a key that isn't known, or a value of the wrong kind.
    """
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


def value_at(config: Any, flag: str) -> Any:
    """The value of a dotted flag in nested dataclasses or dicts."""
    for name in flag.split("."):
        config = config[name] if isinstance(config, dict) else getattr(config, name)
    return config


def check_least(config: Any, least: Mapping[int, Iterable[str]]) -> None:
    """Numbers are as large as they must be, where they are given.

    Raises:
        ValueError: one is smaller.
    """
    for bound, flags in least.items():
        for flag in flags:
            if (value := value_at(config, flag)) is not None and value < bound:
                raise ValueError(f"--{flag} is {value}; it must be at least {bound}")


def refuse_changes(fixed: Iterable[str], then: dict[str, Any], now: dict[str, Any], where: str) -> None:
    """A run that goes on keeps what it depends on: ``fixed`` names settings or groups of them, in nested dicts.

    Raises:
        ValueError: one of them has changed.
    """
    for flag in fixed:
        old, new = value_at(then, flag), value_at(now, flag)
        if old != new:
            flag, old, new = _setting(flag, old, new)
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


def taken(arguments: Sequence[str], flag: str, value: str) -> tuple[str | None, list[str]]:
    """The value of a flag that isn't the config's, and the other arguments.

    Raises:
        ValueError: the flag stands there without its value.
    """
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith(f"{flag}=") else [word])]
    if flag not in words:
        return None, words
    at = words.index(flag)
    if at + 1 == len(words):
        raise ValueError(f"{flag} needs {value}")
    return words[at + 1], words[:at] + words[at + 2 :]
