"""Settings read from files and flags, refused where a launcher can't follow them, and kept when a run goes on."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spy_env import Rules
from trainers.config import Config

SHIPPED = Path(__file__).parent / "first_run"  # holds the configs that go by a name
MOVED = {  # settings of version 0.1.0 that have another name now
    f"game.{name}": f"algo.{name}"
    for name in (
        *("rae", "alpha", "normalise_performing", "shuffle_advantages", "schedule", "cycle", "k_min", "patience"),
        *("rho", "accuracy_enough", "abstention_low", "error_high", "abstention_high"),
    )
}


def settings_of(record: Any, prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield every single setting of nested dataclasses with its dotted name."""
    for f in dataclasses.fields(record):
        value = getattr(record, f.name)
        if dataclasses.is_dataclass(value):
            yield from settings_of(value, f"{prefix}{f.name}.")
        else:
            yield f"{prefix}{f.name}", value


def refuse(config: Config, refused: Mapping[str, str]) -> None:
    """Refuse settings that a launcher can't follow. ``refused`` gives the reason by setting, or by group of settings.

    Raises:
        ValueError: one of them isn't at its default.
    """
    default = dict(settings_of(Config()))
    for name, value in settings_of(config):
        why = next((why for flag, why in refused.items() if f"{name}.".startswith(f"{flag}.")), None)
        if why is not None and value != default[name]:
            raise ValueError(f"--{name} is {value!r}: {why}")


def value_at(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a dotted name in nested dicts."""
    for part in name.split("."):
        row = row[part]
    return row


def refuse_changes(fixed: Iterable[str], then: dict[str, Any], now: dict[str, Any], where: str) -> None:
    """Refuse changes of ``fixed`` settings, or groups of settings, in a run that goes on. Settings are nested dicts.

    Raises:
        ValueError: one of them has changed.
    """
    for name in fixed:
        before, after = value_at(then, name), value_at(now, name)
        while before != after and isinstance(before, dict):  # down to the first single setting that differs
            part = next(part for part in {**before, **after} if before.get(part) != after.get(part))
            name, before, after = f"{name}.{part}", before.get(part), after.get(part)
        if before != after:
            was, is_now = (str(value) or "''" for value in (before, after))
            raise ValueError(
                f"{where} was made with --{name} {was}, and now it is {is_now}; resume with the same, or begin a new run "
                "in another --ckpt.output_dir"
            )


def read_file(file: Path) -> Any:
    """Read a TOML or JSON file.

    Raises:
        ValueError: not TOML or JSON.
    """
    try:
        text = file.read_text(encoding="utf-8")
        return json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file}: {error}") from error


def read_config(path: str) -> Config:
    """Read a config from a TOML or JSON file, or a shipped one by name (``first_run``). Missing settings have their defaults.

    Raises:
        ValueError: no such file, not TOML or JSON, a key that isn't known, or a value of the wrong kind.
    """
    file = Path(path) if Path(path).is_file() else SHIPPED / f"{path}.toml"
    if not file.is_file():
        raise ValueError(f"no config at {path!r}; give a .toml or .json file, or the shipped 'first_run'")
    row = read_file(file)
    return from_dict(Config, row["config"] if isinstance(row, dict) and "config" in row else row, str(file))


def from_dict(kind: Any, row: Any, where: str, group: str = "") -> Any:
    """Make a nested dataclass from nested dicts. ``where`` and ``group`` name the file and the dotted group in errors.

    Raises:
        ValueError: a key that isn't known, or a value of the wrong kind.
    """
    if not isinstance(row, dict):
        raise ValueError(f"{where}: {group or 'the config'} is {row!r}; give a group of settings")
    types = typing.get_type_hints(kind)
    values = {}
    for key, value in row.items():
        name = f"{group}.{key}".lstrip(".")
        if key not in types:
            moved = f"; it is {MOVED[name]} now" if name in MOVED else f"; {group or 'a config'} knows {sorted(types)}"
            raise ValueError(f"{where}: unknown {name}{moved}")
        if dataclasses.is_dataclass(types[key]):
            values[key] = from_dict(types[key], value, where, name)
            continue
        values[key] = tuple(value) if isinstance(value, list) else value
        if not _fits(values[key], types[key]):
            raise ValueError(f"{where}: {name} is {value!r}; it takes {_named(types[key])}")
    return kind(**values)


def _named(kind: Any) -> str:
    return str(kind) if typing.get_args(kind) else kind.__name__


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of an annotated kind; whole numbers are floats too."""
    options = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple) and len(value) == len(options) and all(map(_fits, value, options))
    if options:
        return any(_fits(value, option) for option in options)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def parse(arguments: Sequence[str], prog: str, description: str, others: bool = False) -> tuple[Config, list[str]]:
    """Read the config of a command line: defaults, then ``--config FILE``, then the other flags.

    With ``others`` the arguments that aren't settings come back too; else they are an error.

    Raises:
        ValueError: the file can't be read, a value can't be used, or a setting has another name now.
    """
    file, rest = taken(arguments, "--config", "a TOML or JSON file, or the shipped 'first_run'")
    for flag in (argument.partition("=")[0].removeprefix("--") for argument in rest):
        if (name := flag.replace("-", "_")) in MOVED:
            raise ValueError(f"--{name} is --{MOVED[name]} now")
    import tyro  # the one use of it: all else here works without

    read: Any = tyro.cli(  # type: ignore[call-overload] # one call for both of its forms
        Config,
        args=rest,
        default=Config() if file is None else read_config(file),
        prog=prog,
        description=f"{description} --config FILE sets defaults (TOML or JSON, or the shipped 'first_run').",
        config=(tyro.conf.AvoidSubcommands,),
        use_underscores=True,
        return_unknown_args=others,
    )
    return read if others else (read, [])


def taken(arguments: Sequence[str], flag: str, value: str) -> tuple[str | None, list[str]]:
    """Take a flag that is no setting from the arguments. Return its value and the other arguments.

    Raises:
        ValueError: the flag has no value.
    """
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith(f"{flag}=") else [word])]
    if flag not in words:
        return None, words
    at = words.index(flag)
    if at + 1 == len(words):
        raise ValueError(f"{flag} needs {value}")
    return words[at + 1], words[:at] + words[at + 2 :]


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Give a parser a flag for each rule of the game."""
    texts = dict(re.findall(r"^ +(\w+): (.+)$", Rules.__doc__ or "", re.MULTILINE))
    types = typing.get_type_hints(Rules)
    for f in dataclasses.fields(Rules):
        kind = next(kind for kind in (typing.get_args(types[f.name]) or (types[f.name],)) if kind is not type(None))
        parser.add_argument(f"--{f.name}", type=kind, default=f.default, help=texts[f.name].replace("%", "%%"))


def rules_of(args: argparse.Namespace) -> Rules:
    """Make the rules from flags that ``add_rules`` added.

    Raises:
        ValueError: a value that no game can be played with.
    """
    return Rules(**{f.name: getattr(args, f.name) for f in dataclasses.fields(Rules)})
