"""What the task files call: the problems, and the grading of answers. Loaded by lm-evaluation-harness, by its path.

``metadata`` says where the problems are: from the hub unless it has ``data``, a folder of JSONL files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.evaluation.answers import Kind
from benchmarks.evaluation.data_sets import json_rows
from benchmarks.evaluation.grading import NO_ANSWER, shared_grader
from benchmarks.evaluation.problems import read_problems


def load(
    set: str, items: str | None = None, data: str | None = None, limit: int | None = None, seed: int = 0, **_: Any
) -> dict[str, Any]:
    """The problems of a set: those in the folder ``items``, as the suite chose them, or read as the suite reads them.

    Raises:
        ValueError: they can't be read, or the folder ``data`` has no file for the set.
    """
    from datasets import Dataset

    if items:
        return {"test": Dataset.from_list(list(json_rows(Path(items) / f"{set}.jsonl")))}
    problems = read_problems(set, Path(data) if data else None, limit, seed)
    if problems is None:
        raise ValueError(f"{data} has no {set}.jsonl; see the data sets' names in benchmarks/evaluation/reasoning.py")
    return {"test": Dataset.from_list([problem._asdict() for problem in problems.rows])}


def all_samples(replies: Iterable[list[str]], docs: Iterable[Any]) -> Iterable[list[str]]:
    """A filter that leaves every sample as it is; the harness' own would keep the first."""
    return replies


def graded(doc: Mapping[str, Any], results: Sequence[list[str]]) -> dict[str, float]:
    """The share of a problem's samples that are right, and of those without a readable answer."""
    kind: Kind = doc["kind"]
    outcomes = [shared_grader().grade(kind, reply, doc["gold"]) for reply in results[0]]
    return {
        "right": sum(outcome.right for outcome in outcomes) / len(outcomes),
        "unanswered": sum(outcome.why == NO_ANSWER for outcome in outcomes) / len(outcomes),
    }
