"""Ranges of settings, written at the fields of frozen dataclasses, and checked here."""

from __future__ import annotations

import dataclasses
from math import inf
from typing import Any

_BOUNDS = {  # by name: the comparison of a value with its bound, and its words in messages
    "least": (lambda value, bound: value >= bound, "at least"),
    "above": (lambda value, bound: value > bound, "above"),
    "most": (lambda value, bound: value <= bound, "at most"),
    "below": (lambda value, bound: value < bound, "below"),
}


def ranged(default: Any, *, hint: str = "", **bounds: float) -> Any:
    """Make a field for a number (or a tuple of numbers) within ``bounds``: ``least``, ``above``, ``most``, ``below``.

    ``hint`` ends the error message. ``None``, where it is the default, is always in range.
    """
    return dataclasses.field(default=default, metadata={"bounds": bounds, "hint": hint})


def choice(default: str, *choices: str) -> Any:
    """Make a field for one of a few words, the first of them by default."""
    return dataclasses.field(default=default, metadata={"choices": (default, *choices)})


def check_ranges(record: Any, prefix: str = "") -> None:
    """Check every field of a dataclass, and of the dataclasses in it. ``prefix`` is put before names in messages.

    Raises:
        ValueError: a value is out of its range, or is none of its choices.
    """
    for field in dataclasses.fields(record):
        value, name = getattr(record, field.name), f"{prefix}{field.name}"
        if dataclasses.is_dataclass(value):
            check_ranges(value, f"{name}.")
        elif "choices" in field.metadata and value not in field.metadata["choices"]:
            raise ValueError(f"{name} is {value!r}; choose one of {list(field.metadata['choices'])}")
        elif "bounds" in field.metadata and (value is not None or field.default is not None):
            _check_number(name, value, field.metadata["bounds"], field.metadata["hint"])


def _check_number(name: str, value: Any, bounds: dict[str, float], hint: str) -> None:
    numbers = value if isinstance(value, tuple) else (value,)
    if all(
        isinstance(number, (int, float))
        and -inf < number < inf
        and all(_BOUNDS[b][0](number, bound) for b, bound in bounds.items())
        for number in numbers
    ):
        return
    allowed = " and ".join(f"{_BOUNDS[b][1]} {bound:g}" for b, bound in bounds.items()) or "a finite number"
    raise ValueError(f"{name} is {value}; it must be {allowed}{hint and f' ({hint})'}")
