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
    """A text to grade: its set, whose it is, the item's row with its checklist, and the text."""

    set: str
    who: str
    item: Mapping[str, Any]
    text: str


def check(item: Mapping[str, Any]) -> None:
    """See that an item's checklist can be graded by.

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
        missing = [
            name for name in needed if not isinstance(criterion, dict) or not str(criterion.get(name) or "").strip()
        ]
        if missing:
            raise ValueError(
                f"item {item['id']}: a criterion of its checklist lacks {missing}; each needs {list(needed)}, as in "
                "WritingBench's files"
            )


def grade(judge: Judge, texts: Sequence[Graded], seed: int, folder: Path) -> list[Score]:
    """Scores by set and contestant, overall and by language; each grade goes to ``grades.jsonl``.

    Raises:
        CostCapError, UnreachableError: as ``Judge.ask``.
    """
    asked = [(text, criterion) for text in texts if text.text for criterion in text.item["checklist"]]
    prompts = [_question(text, criterion) for text, criterion in asked]
    answers = judge.ask(prompts, "grades by checklist", GRADING)
    rows = [
        _row(text, criterion["name"], answer, judge.key(prompt, GRADING))
        for (text, criterion), prompt, answer in zip(asked, prompts, answers, strict=True)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    disk.write_whole(folder / "grades.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return _scores(texts, rows, seed)


def _question(text: Graded, criterion: Mapping[str, Any]) -> str:
    levels = {numbers: str(criterion[numbers]) for numbers in LEVELS}
    return grading(
        text.item["prompt"], text.text, str(criterion["name"]), str(criterion["criteria_description"]), levels
    )


def _row(text: Graded, criterion: str, answer: Answer, key: str) -> dict[str, Any]:
    value = None if answer.failed else read_grade(answer.text)
    why = no_verdict(answer) if value is None else ""
    return {
        "set": text.set,
        "item": text.item["id"],
        "who": text.who,
        "criterion": criterion,
        "grade": value,
        "why": why,
        "verdict": key,
    }


def _scores(texts: Sequence[Graded], rows: Sequence[Mapping[str, Any]], seed: int) -> list[Score]:
    given: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    lost: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        place = row["set"], row["who"], row["item"]
        if row["grade"] is None:
            lost[place][row["why"]] += 1
        else:
            given[place].append(row["grade"])
    groups: defaultdict[tuple[str, str, str], list[Graded]] = defaultdict(list)
    for text in texts:
        groups[text.set, text.who, ""].append(text)
        groups[text.set, text.who, f", {text.item['lang']}"].append(text)
    found = []
    for (name, who, part), group in groups.items():
        values, counts = list[float](), Counter[str]()
        for text in group:
            place = text.set, text.who, text.item["id"]
            counts.update(lost[place])
            if not text.text:
                counts["empty"] += 1
                values.append(0.0)
            elif given[place]:
                values.append(sum(given[place]) / len(given[place]))
            else:
                counts["items without a grade"] += 1
        found.append(score_of(name, METRIC + part, who, mean(values, seed), counts, percent=False))
    return found
