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
from benchmarks.evaluation.data_sets import DataSet, Hub, read_set

LETTERS = "ABCDEFGHIJKLMNOP"  # of as many options as a problem may have
UNREADABLE, ALIKE = "unreadable gold answer", "right answer among the wrong ones"


class Problem(NamedTuple):
    """A question and its gold answer. ``options`` are lines ``A. ...``, empty where there is no choice."""

    id: str
    question: str
    options: str
    gold: str
    kind: Kind


class Problems(NamedTuple):
    """The problems to evaluate, how many the set has, and how many were left out for which reason."""

    rows: list[Problem]
    total: int
    excluded: dict[str, int]
    source: str


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """A data set and the kind of its gold answers; of a ``sampled`` one, several answers to each problem are drawn."""

    data: DataSet
    kind: Kind
    sampled: bool = False


_QUESTION = ("question", "problem", "Problem", "Question")
_ANSWER = ("answer", "Answer")
_WRONG = {f"wrong_{i}": (f"Incorrect Answer {i}",) for i in (1, 2, 3)}
_OPEN: Mapping[str, tuple[str, ...]] = {
    "question": _QUESTION,
    "answer": (*_ANSWER, "solution"),  # math-ai/aime24 has its answer in the solution's box alone
}
_OPTIONS = {"question": _QUESTION, "options": ("options",), "answer": _ANSWER}
_GPQA = {"question": _QUESTION, "right": ("Correct Answer",), **_WRONG}
_MATH500 = Hub("HuggingFaceH4/MATH-500")
_AIME24 = Hub("HuggingFaceH4/aime_2024", split="train")
_DIAMOND = Hub("Idavidrein/gpqa", "gpqa_diamond", split="train")
PROBLEM_SETS: Mapping[str, ProblemSet] = {
    each.data.name: each
    for each in (
        ProblemSet(DataSet("gsm8k", "GSM8K", Hub("openai/gsm8k", "main"), _OPEN), "number"),
        ProblemSet(DataSet("math500", "MATH-500", _MATH500, _OPEN), "math"),
        ProblemSet(DataSet("aime24", "AIME 2024", _AIME24, _OPEN), "number", sampled=True),
        ProblemSet(DataSet("aime25", "AIME 2025", Hub("math-ai/aime25"), _OPEN), "number", sampled=True),
        ProblemSet(DataSet("minerva_math", "Minerva", Hub("math-ai/minervamath"), _OPEN), "measured"),
        ProblemSet(DataSet("mmlu_pro", "MMLU-Pro", Hub("TIGER-Lab/MMLU-Pro"), _OPTIONS), "choice"),
        ProblemSet(DataSet("gpqa", "GPQA-Diamond", _DIAMOND, _GPQA), "choice"),
    )
}


def read_problems(name: str, folder: Path | None, limit: int | None, seed: int) -> Problems | None:
    """Read the problems of a data set; None where ``folder`` has no file for it.

    Raises:
        ValueError: the data can't be read, a column is missing, or no problem can be graded.
    """
    problem_set = PROBLEM_SETS[name]
    items = read_set(problem_set.data, folder, limit, seed)
    if items is None:
        return None
    problems, excluded = list[Problem](), Counter[str]()
    for row in items.rows:
        problem = _choice(row) if problem_set.kind == "choice" else _open(row, problem_set.kind)
        if isinstance(problem, Problem):
            problems.append(problem)
        else:
            excluded[problem] += 1
    if not problems:
        first = items.rows[0]
        raise ValueError(
            f"{items.source}: none of {len(items.rows)} rows of {problem_set.data.title} can be graded ({dict(excluded)}); "
            f"the first has {str(first.get('answer', first.get('right')))[:200]!r}"
        )
    return Problems(problems, items.total, {**items.excluded, **excluded}, items.source)


_INTEGER = re.compile(r"[+-]?\d+(?:\.0*)?")


def _open(row: Mapping[str, Any], kind: Kind) -> Problem | str:
    """Return the problem, or the reason to leave it out. The answer is whole, after GSM8K's ``####``, or in the last box."""
    answer = str(row["answer"])
    gold = answer.rpartition("####")[2] if "####" in answer else last_box(answer) or answer
    gold = gold.strip()
    if kind == "number":
        gold = gold.replace(",", "").replace("$", "").strip()
        if not _INTEGER.fullmatch(gold):
            return UNREADABLE
    return Problem(row["id"], str(row["question"]), "", gold, kind) if gold else UNREADABLE


def _choice(row: Mapping[str, Any]) -> Problem | str:
    """Return the problem, or the reason to leave it out. GPQA's four options are shuffled by a seed of the item's own."""
    if "right" in row:
        right, texts = str(row["right"]), [str(row[name]) for name in ("right", *_WRONG)]
        if right.strip() in (text.strip() for text in texts[1:]):
            return ALIKE  # two letters would be right, and one of them counts
        Random(f"gpqa/{row['id']}").shuffle(texts)
        gold = LETTERS[texts.index(right)]
    else:
        options = row["options"]
        if not isinstance(options, list) or not 2 <= len(options) <= len(LETTERS):
            raise ValueError(
                f"MMLU-Pro item {row['id']}: options are {str(options)[:200]!r}; give a list of 2 to {len(LETTERS)} texts"
            )
        texts, gold = [str(option) for option in options], str(row["answer"]).strip()
        if gold not in tuple(LETTERS[: len(texts)]):
            return UNREADABLE
    listed = "\n".join(f"{letter}. {text.strip()}" for letter, text in zip(LETTERS, texts, strict=False))
    return Problem(row["id"], str(row["question"]), listed, gold, "choice")
