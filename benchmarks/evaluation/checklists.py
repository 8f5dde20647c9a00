"""WritingBench's own measure: each text graded from 1 to 10 by each criterion of its request's checklist."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.intervals import mean
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.questions import grading, no_verdict, read_grade
from benchmarks.evaluation.results import Score, score_of
from trainers import disk
from trainers.engines import Sampling

METRIC = "checklist score (1-10)"
LEVELS = ("1-2", "3-4", "5-6", "7-8", "9-10")
GRADING = Sampling(2048, temperature=1.0, top_p=0.95)  # WritingBench's README
PROTOCOL = {
    "checklist score": "one question for each criterion of an item's checklist, whole numbers from 1 to 10, the levels in the "
    "checklist's own words; the mean over an item's criteria, then over items. An empty text gets 0 without a question",
    "checklist decoding": "top_p 0.95, temperature 1.0, at most 2,048 tokens, as WritingBench has it",
    "grades left out": "a grade that can't be read or wasn't given is left out of its item's mean and counted; an item "
    "without any grade is left out",
}


class Graded(NamedTuple):
    """A text to grade: its set, who wrote it, the item's row with its checklist, and the text."""

    set: str
    who: str
    item: Mapping[str, Any]
    text: str


Row = dict[str, Any]
"""One line of ``grades.jsonl``."""


def check(item: Mapping[str, Any]) -> None:
    """Check that an item's checklist can be graded by.

    Raises:
        ValueError: a criterion lacks its name, its description or one of its levels.
    """
    needed = ("name", "criteria_description", *LEVELS)
    checklist = item["checklist"]
    if not isinstance(checklist, list):
        raise ValueError(
            f"item {item['id']}: its checklist is {type(checklist).__name__}; it must be a list of criteria"
        )
    for criterion in checklist:
        fields = criterion if isinstance(criterion, dict) else {}
        if missing := [name for name in needed if not str(fields.get(name) or "").strip()]:
            raise ValueError(
                f"item {item['id']}: a criterion of its checklist lacks {missing}; each needs {list(needed)}, as in "
                "WritingBench's files"
            )


def grade(judge: Judge, texts: Sequence[Graded], seed: int, folder: Path) -> list[Score]:
    """Return scores by set and contestant, overall and by language; each grade goes to ``grades.jsonl``.

    Raises:
        CostCapError, UnreachableError: as ``Judge.ask``.
    """
    questions = [[_question(text, criterion) for criterion in _criteria(text)] for text in texts]
    answers = iter(judge.ask([prompt for prompts in questions for prompt in prompts], "grades by checklist", GRADING))
    grades = [
        [
            _row(text, criterion["name"], next(answers), judge.key(prompt, GRADING))
            for criterion, prompt in zip(_criteria(text), prompts, strict=True)
        ]
        for text, prompts in zip(texts, questions, strict=True)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row) + "\n" for rows in grades for row in rows]
    disk.write_whole(folder / "grades.jsonl", "".join(lines))
    groups: defaultdict[tuple[str, str, str], list[tuple[Graded, list[Row]]]] = defaultdict(list)
    for text, rows in zip(texts, grades, strict=True):
        for part in ("", f", {text.item['lang']}"):
            groups[text.set, text.who, part].append((text, rows))
    return [_score(name, who, part, group, seed) for (name, who, part), group in groups.items()]


def _criteria(text: Graded) -> Sequence[Mapping[str, Any]]:
    """Return the criteria that a text is graded by: none for an empty text."""
    return text.item["checklist"] if text.text else ()


def _question(text: Graded, criterion: Mapping[str, Any]) -> str:
    levels = {numbers: str(criterion[numbers]) for numbers in LEVELS}
    return grading(
        text.item["prompt"], text.text, str(criterion["name"]), str(criterion["criteria_description"]), levels
    )


def _row(text: Graded, criterion: str, answer: Answer, key: str) -> Row:
    value = None if answer.failed else read_grade(answer.text)
    return {
        "set": text.set,
        "item": text.item["id"],
        "who": text.who,
        "criterion": criterion,
        "grade": value,
        "why": no_verdict(answer) if value is None else "",
        "verdict": key,
    }


def _score(name: str, who: str, part: str, graded: Sequence[tuple[Graded, Sequence[Row]]], seed: int) -> Score:
    """Return the mean over texts of the mean over criteria; an empty text has 0, one without a grade is left out."""
    values, counts = list[float](), Counter[str]()
    for text, rows in graded:
        grades = [row["grade"] for row in rows if row["grade"] is not None]
        counts.update(row["why"] for row in rows if row["grade"] is None)
        if not text.text:
            counts["empty"] += 1
            values.append(0.0)
        elif grades:
            values.append(sum(grades) / len(grades))
        else:
            counts["items without a grade"] += 1
    return score_of(name, METRIC + part, who, mean(values, seed), counts, percent=False)
