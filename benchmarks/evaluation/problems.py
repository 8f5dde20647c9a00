"""The data sets of the reasoning suite: where they come from, and their rows as problems under one set of columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.evaluation.answers import Kind, last_box
from benchmarks.evaluation.data_sets import DataSet, Hub, Items, read_set

LETTERS = "ABCDEFGHIJKLMNOP"
MOST_OPTIONS = len(LETTERS)
UNREADABLE, ALIKE = "unreadable gold answer", "right answer among the wrong ones"


class Problem(NamedTuple):
    """What is asked and answered. ``options`` are lines ``A. ...``, empty where there is no choice."""

    id: str
    question: str
    options: str
    gold: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """A data set and what its gold answers are; ``sampled``: several answers to each problem are drawn."""

    data: DataSet
    kind: Kind
    sampled: bool = False


_QUESTION = ("question", "problem", "Problem", "Question")
_ANSWER = ("answer", "Answer")


def _math(name: str, title: str, hub: Hub, kind: Kind = "math", sampled: bool = False) -> ProblemSet:
    # math-ai/aime24 has its answer in the solution's box alone
    return ProblemSet(
        DataSet(name, title, hub, {"question": _QUESTION, "answer": (*_ANSWER, "solution")}), kind, sampled
    )


_WRONG = {f"wrong_{i}": (f"Incorrect Answer {i}",) for i in (1, 2, 3)}
PROBLEM_SETS: Mapping[str, ProblemSet] = {
    each.data.name: each
    for each in (
        _math("gsm8k", "GSM8K", Hub("openai/gsm8k", "main"), "number"),
        _math("math500", "MATH-500", Hub("HuggingFaceH4/MATH-500")),
        _math("aime24", "AIME 2024", Hub("HuggingFaceH4/aime_2024", split="train"), "number", sampled=True),
        _math("aime25", "AIME 2025", Hub("math-ai/aime25"), "number", sampled=True),
        _math("minerva_math", "Minerva", Hub("math-ai/minervamath"), "measured"),
        ProblemSet(
            DataSet(
                "mmlu_pro",
                "MMLU-Pro",
                Hub("TIGER-Lab/MMLU-Pro"),
                {"question": _QUESTION, "options": ("options",), "answer": _ANSWER},
            ),
            "choice",
        ),
        ProblemSet(
            DataSet(
                "gpqa",
                "GPQA-Diamond",
                Hub("Idavidrein/gpqa", "gpqa_diamond", split="train"),
                {"question": _QUESTION, "right": ("Correct Answer",), **_WRONG},
            ),
            "choice",
        ),
    )
}


class Problems(NamedTuple):
    """The problems to evaluate, how many the set has, and what was left out and why."""

    rows: list[Problem]
    total: int
    excluded: dict[str, int]
    source: str


def read_problems(name: str, folder: Path | None, limit: int | None, seed: int) -> Problems | None:
    """The problems of a data set by its name, or None where ``folder`` has no file for it.

    Raises:
        ValueError: the data can't be read, a column is missing, or no problem can be graded.
    """
    problem_set = PROBLEM_SETS[name]
    items = read_set(problem_set.data, folder, limit, seed)
    return None if items is None else _problems(problem_set, items)


def _problems(problem_set: ProblemSet, items: Items) -> Problems:
    excluded = Counter(items.excluded)
    read = [_choice(row) if problem_set.kind == "choice" else _open(row, problem_set.kind) for row in items.rows]
    rows = [problem for problem in read if isinstance(problem, Problem)]
    why = Counter(problem for problem in read if isinstance(problem, str))
    if not rows:
        raise ValueError(
            f"{items.source}: none of {len(read)} rows of {problem_set.data.title} can be graded ({dict(why)}); the first has "
            f"{_gold_of(items.rows[0])!r}"
        )
    excluded.update(why)
    return Problems(rows, items.total, dict(excluded), items.source)


def _gold_of(row: Mapping[str, Any]) -> Any:
    return str(row.get("answer", row.get("right")))[:200]


_INTEGER = re.compile(r"[+-]?\d+(?:\.0*)?")


def _open(row: Mapping[str, Any], kind: Kind) -> Problem | str:
    """A problem with an answer of its own: as it stands, after GSM8K's ``####``, or in the solution's box; or why none."""
    answer = str(row["answer"])
    gold = answer.rpartition("####")[2] if "####" in answer else last_box(answer) or answer
    gold = gold.strip()
    if kind == "number":
        gold = gold.replace(",", "").replace("$", "").strip()
        if not _INTEGER.fullmatch(gold):
            return UNREADABLE
    return Problem(row["id"], str(row["question"]), "", gold, kind) if gold else UNREADABLE


def _choice(row: Mapping[str, Any]) -> Problem | str:
    """A problem with options, or why none. GPQA's four are shuffled, by a seed of the item's own."""
    if "right" in row:
        right, texts = str(row["right"]), [str(row[name]) for name in ("right", *_WRONG)]
        if right.strip() in (text.strip() for text in texts[1:]):
            return ALIKE  # two letters would be right, and one of them counts
        Random(f"gpqa/{row['id']}").shuffle(texts)
        gold = LETTERS[texts.index(right)]
    else:
        listed = row["options"]
        if not isinstance(listed, list) or not 2 <= len(listed) <= MOST_OPTIONS:
            raise ValueError(
                f"MMLU-Pro item {row['id']}: options are {str(listed)[:200]!r}; give a list of 2 to {MOST_OPTIONS} texts"
            )
        texts, gold = [str(option) for option in listed], str(row["answer"]).strip()
        if gold not in tuple(LETTERS[: len(texts)]):
            return UNREADABLE
    options = "\n".join(f"{letter}. {text.strip()}" for letter, text in zip(LETTERS, texts, strict=False))
    return Problem(row["id"], str(row["question"]), options, gold, "choice")
