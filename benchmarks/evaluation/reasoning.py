"""The reasoning suite: seven sets of problems by lm-evaluation-harness, graded by ``grading.py``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.flags import Calls, Run
from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.grading import REASONS, Grader, Outcome, shared_grader
from benchmarks.evaluation.harness import Written, answered
from benchmarks.evaluation.intervals import item_share, mean
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.problems import PROBLEM_SETS, Problem, Problems, read_problems
from benchmarks.evaluation.results import Results, Score, score_of
from trainers import disk

NAME = "reasoning"
SETS = tuple(PROBLEM_SETS)
METRIC = "accuracy"  # of AIME the mean over samples; the protocol says so
PROTOCOL = {
    "harness": "lm-evaluation-harness 0.4.13 with the task files of benchmarks/evaluation/tasks, which run by its own command, "
    "too",
    "prompts": "our own: the problem and one sentence that asks for steps and for the answer in \\boxed{}; zero-shot, one user "
    "message in the model's chat template, no system prompt (MMLU-Pro's own protocol has five examples)",
    "decoding": "at most 4,096 new tokens, the reply length of the published training; greedy, and for AIME temperature 0.6, "
    "top_p 0.95. The published tables name neither prompts, decoding nor graders",
    "answer": "the last complete \\boxed{} after any thinking; a letter also from a last 'the answer is (X)' where there is no "
    "box. Without one the answer is wrong and counted as 'no answer'",
    "grading": "spelling, words and numbers first, then math-verify 0.9.0 in a process of its own with 10 s an answer; GSM8K and "
    "AIME: the same number; MATH-500: equal mathematics, a number that isn't whole to a relative 1e-6; Minerva: numbers within "
    "1 % (ours: its answers are rounded), formulas by algebra or by value where all symbols are positive; MMLU-Pro, GPQA: the "
    "letter, of GPQA's options in an order drawn for each item",
    "aime": "the mean over the samples of a problem, then over problems",
    "intervals": "over problems, not samples",
}


def items(run: Run) -> dict[str, Problems]:
    """The problems by data set.

    Raises:
        ValueError: a set can't be read, none of its problems can be graded, or there is none at all.
    """
    found: dict[str, Problems] = {}
    for name in run.chosen(SETS):
        problems = read_problems(name, run.data, run.limit, run.seed)
        if problems is None:
            run.say(f"{NAME}: {name} is left out: {run.data} has no {name}.jsonl")
            continue
        found[name] = problems
        for reason, count in problems.excluded.items():
            run.say(f"{NAME}: {count} of {problems.total} items of {name} are left out: {reason}")
    if not found:
        raise ValueError(
            f"{NAME} has no data set to evaluate ({', '.join(run.sets) or 'all wanted'}, from {run.data or 'the hub'}); its "
            f"sets are {list(SETS)}, and a folder of --data has one JSONL file for each"
        )
    return found


def calls(run: Run, found: Mapping[str, Problems], against: bool, judged: bool) -> Calls:
    """One text a problem, of AIME one for each sample; nothing is judged."""
    return Calls(sum(len(problems.rows) * _samples(run, name) for name, problems in found.items()), 0)


def _samples(run: Run, name: str) -> int:
    return run.samples if PROBLEM_SETS[name].sampled else 1


def generate(run: Run, found: Mapping[str, Problems], who: Contestant) -> Written:
    """Answers to every problem.

    Raises:
        ValueError: the harness isn't installed.
        UnreachableError: the endpoint is down.
    """
    return answered(found, who, run.output / NAME, run.samples, run.seed, f"{who.role}: {NAME}")


def score(run: Run, found: Mapping[str, Problems], answers: dict[str, Any], judge: Judge | None) -> Results:
    """The share of right answers of each contestant on each set, and ``outcomes.jsonl`` with every answer's grade.

    Raises:
        ValueError: math-verify isn't installed.
    """
    written: dict[str, Written] = answers
    scores: list[Score] = []
    notes = [
        f"{name}: {len(problems.rows)} of {problems.total} items of {problems.source}; left out: {problems.excluded or 0}"
        for name, problems in found.items()
    ]
    with Grades(run.output / NAME / "outcomes.jsonl") as grades:
        for name, problems in found.items():
            for role, by_role in written.items():
                scores.append(_score(run, name, problems.rows, role, by_role, grades))
            if "base" in written:
                scores += _difference(run, name, problems.rows, grades)
    for role, by_role in written.items():
        notes += _checked(role, by_role, scores)
    return Results(NAME, scores, {**PROTOCOL, "samples of each AIME problem": run.samples}, notes)


class Graded(NamedTuple):
    """An answer and its grade."""

    sample: int
    answer: Answer
    outcome: Outcome


class Grades:
    """The grades of all answers, by role, set and item; written to a file at the end."""

    def __init__(self, file: Path) -> None:
        """Nothing is graded yet."""
        self.file = file
        self.shares: dict[tuple[str, str], dict[str, float]] = {}
        self._lines: list[str] = []
        self._grader: Grader = shared_grader()  # it knows the answers that the harness had it grade

    def __enter__(self) -> Grades:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        disk.write_whole(self.file, "".join(self._lines))

    def of(self, role: str, name: str, problem: Problem, answers: list[Answer]) -> list[Graded]:
        """The grades of the answers to a problem; what the infrastructure failed has none."""
        graded = [
            Graded(sample, answer, self._grader.grade(problem.kind, answer.text, problem.gold))
            for sample, answer in enumerate(answers)
            if not answer.failed
        ]
        for sample, answer, outcome in graded:
            row = {"who": role, "set": name, "item": problem.id, "sample": sample, "said": outcome.said}
            row |= {"gold": problem.gold, "right": outcome.right, "why": outcome.why, "truncated": answer.truncated}
            self._lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        if graded:
            right = sum(each.outcome.right for each in graded) / len(graded)
            self.shares.setdefault((role, name), {})[problem.id] = right
        return graded


def _score(run: Run, name: str, rows: list[Problem], role: str, written: Written, grades: Grades) -> Score:
    counts: Counter[str] = Counter()
    of_set = written.answers.get(name, {})
    for problem in tqdm(rows, desc=f"{role}: grading {name}", unit="problem", dynamic_ncols=True, delay=5):
        answers = of_set.get(problem.id, [])
        counts["failed"] += sum(bool(answer.failed) for answer in answers)
        for _, answer, outcome in grades.of(role, name, problem, answers):
            counts["empty"] += not answer.said
            counts["truncated"] += answer.truncated
            if outcome.why in REASONS:
                counts[outcome.why] += 1
    counts["prompt too long"] = written.too_long.get(name, 0)
    counts["shortened"] = written.shortened.get(name, 0)
    counts["problems without an answer"] = len(rows) - len(grades.shares.get((role, name), {}))
    shares = list(grades.shares.get((role, name), {}).values())
    return score_of(name, METRIC, role, item_share(shares, run.seed), counts)


def _difference(run: Run, name: str, rows: list[Problem], grades: Grades) -> list[Score]:
    """The model's accuracy less the base's, on the problems that both answered; an interval tells more than two do."""
    model, base = (grades.shares.get((role, name), {}) for role in ("model", "base"))
    both = [model[problem.id] - base[problem.id] for problem in rows if problem.id in model and problem.id in base]
    metric = f"difference of {METRIC}"
    return [score_of(name, metric, "model against base", mean(both, run.seed))] if both else []


def _checked(role: str, written: Written, scores: list[Score]) -> list[str]:
    """Where the harness' own mean differs from ours: it takes what was left out for wrong."""
    ours = {score.set: score.value for score in scores if score.who == role}
    return [
        f"{role}, {name}: lm-evaluation-harness itself reports {100 * theirs:.1f} %, with what is left out here as wrong"
        for name, theirs in written.means.items()
        if not abs(ours[name] - theirs) < 1e-9
    ]
