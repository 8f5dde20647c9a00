"""Answers in boxes: how the suites and the judge's verdicts read ``\\boxed{}``, by the reader that votes have."""

from __future__ import annotations

from spy_env import ballot

_BOX = ballot.box_pattern(nesting=24)  # an answer in mathematics nests deeper than a vote; we chose the bound


def last_box(text: str) -> str | None:
    """What the last complete, non-empty ``\\boxed{}`` after any thinking holds; None where there is no such box."""
    return ballot.last_box(text, _BOX)
