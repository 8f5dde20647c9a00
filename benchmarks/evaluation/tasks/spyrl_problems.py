"""The functions that the task files call: problems and grades. lm-evaluation-harness loads this file by its path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.evaluation.data_sets import json_rows
from benchmarks.evaluation.grading import NO_ANSWER, shared_grader
from benchmarks.evaluation.problems import PROBLEM_SETS, read_problems


def load(
    set: str, items: str | None = None, data: str | None = None, limit: int | None = None, seed: int = 0, **_: Any
) -> dict[str, Any]:
    """Load a set's problems, by the task's metadata: those that the suite chose, in the folder ``items``, or from the source.

    That is the hub, unless ``data`` is a folder of JSONL files; ``limit`` and ``seed`` draw as the suite does.

    Raises:
        ValueError: they can't be read, or the folder ``data`` has no file for the set.
    """
    from datasets import Dataset

    if items:
        return {"test": Dataset.from_list(list(json_rows(Path(items) / f"{set}.jsonl")))}
    problems = read_problems(set, Path(data) if data else None, limit, seed)
    if problems is None:
        raise ValueError(f"{data} has no {set}.jsonl; the data sets are {list(PROBLEM_SETS)}")
    return {"test": Dataset.from_list([problem._asdict() for problem in problems.rows])}


def all_samples(replies: Iterable[list[str]], docs: Iterable[Any]) -> Iterable[list[str]]:
    """Leave every sample as it is: a filter, since the harness' own would keep the first."""
    return replies


def graded(doc: Mapping[str, Any], results: Sequence[list[str]]) -> dict[str, float]:
    """Return the share of a problem's samples that are right, and of those without a readable answer."""
    outcomes = [shared_grader().grade(doc["kind"], reply, doc["gold"]) for reply in results[0]]
    return {
        "right": sum(outcome.right for outcome in outcomes) / len(outcomes),
        "unanswered": sum(outcome.why == NO_ANSWER for outcome in outcomes) / len(outcomes),
    }
