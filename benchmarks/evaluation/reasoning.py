"""The reasoning suite: seven sets of problems, asked through lm-evaluation-harness and graded by ``grading.py``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm import tqdm

from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.flags import Calls, Run
from benchmarks.evaluation.grading import INSTALL, check_installed, shared_grader
from benchmarks.evaluation.intervals import item_share, mean
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.problems import PROBLEM_SETS, Problem, Problems, read_problems
from benchmarks.evaluation.results import Results, Score, score_of
from trainers import disk

if TYPE_CHECKING:
    from benchmarks.evaluation.harness import Written

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
    """Read the problems by data set.

    Raises:
        ValueError: a set can't be read, none of its problems can be graded, or there is none at all.
    """
    return run.read_sets(NAME, SETS, lambda name: read_problems(name, run.data, run.limit, run.seed))


def calls(run: Run, items: Mapping[str, Problems], against: bool, judged: bool) -> Calls:
    """Count one text per problem, and per sample of AIME's; nothing is judged."""
    samples = {name: run.samples if PROBLEM_SETS[name].sampled else 1 for name in items}
    return Calls(sum(len(problems.rows) * samples[name] for name, problems in items.items()), 0)


def generate(run: Run, items: Mapping[str, Problems], who: Contestant) -> Written:
    """Have a contestant answer every problem.

    Raises:
        ValueError: the harness or math-verify isn't installed.
        UnreachableError: the endpoint is down.
    """
    try:
        from benchmarks.evaluation.harness import answered
    except ImportError as error:
        raise ValueError(f"the reasoning suite needs the eval extra ({error}): {INSTALL}") from error
    check_installed()  # before anything is paid for
    return answered(items, who, run.output / NAME, run.samples, run.seed, f"{who.role}: {NAME}")


def score(run: Run, items: Mapping[str, Problems], answers: Mapping[str, Written], judge: Judge | None) -> Results:
    """Return each contestant's share of right answers on each set, and write every grade to ``outcomes.jsonl``.

    Raises:
        ValueError: math-verify isn't installed.
    """
    scores: list[Score] = []
    rows: list[dict[str, Any]] = []
    for name, problems in items.items():
        grades = {role: _grade(role, name, problems.rows, written) for role, written in answers.items()}
        for role, graded in grades.items():
            share = item_share(list(graded.shares.values()), run.seed)
            scores.append(score_of(name, METRIC, role, share, graded.counts))
            rows += graded.rows
        if "base" in grades:
            scores += _difference(name, grades["model"].shares, grades["base"].shares, run.seed)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    disk.write_whole(run.output / NAME / "outcomes.jsonl", lines)
    notes = [
        f"{name}: {len(problems.rows)} of {problems.total} items of {problems.source}; left out: {problems.excluded or 0}"
        for name, problems in items.items()
    ]
    for role, written in answers.items():
        notes += _other_means(role, written.means, scores)
    return Results(NAME, scores, {**PROTOCOL, "samples of each AIME problem": run.samples}, notes)


class Graded(NamedTuple):
    """A contestant's grades on one set: the share of right samples by problem, the counts, and one row per answer."""

    shares: dict[str, float]
    counts: Counter[str]
    rows: list[dict[str, Any]]


def _grade(role: str, name: str, problems: list[Problem], written: Written) -> Graded:
    """Grade the answers of one contestant to one set, without those that the infrastructure failed."""
    grader = shared_grader()  # it remembers the answers that the harness had it grade
    graded = Graded({}, Counter(failed=0, empty=0, truncated=0), [])
    answers = written.answers.get(name, {})
    for problem in tqdm(problems, desc=f"{role}: grading {name}", unit="problem", dynamic_ncols=True, delay=5):
        right = []
        for sample, answer in enumerate(answers.get(problem.id, [])):
            if answer.failed:
                graded.counts["failed"] += 1
                continue
            outcome = grader.grade(problem.kind, answer.text, problem.gold)
            right.append(outcome.right)
            graded.counts.update(empty=not answer.said, truncated=answer.truncated)
            if outcome.why:
                graded.counts[outcome.why] += 1
            row = {"who": role, "set": name, "item": problem.id, "sample": sample, "said": outcome.answer}
            row |= {"gold": problem.gold, "right": outcome.right, "why": outcome.why, "truncated": answer.truncated}
            graded.rows.append(row)
        if right:
            graded.shares[problem.id] = sum(right) / len(right)
    graded.counts["prompt too long"] = written.too_long[name]
    graded.counts["shortened"] = written.shortened[name]
    graded.counts["problems without an answer"] = len(problems) - len(graded.shares)
    return graded


def _difference(name: str, model: Mapping[str, float], base: Mapping[str, float], seed: int) -> list[Score]:
    """Subtract the base's shares on the problems that both answered: its interval is narrower than two side by side."""
    both = [model[problem] - base[problem] for problem in model if problem in base]
    metric = f"difference of {METRIC}"
    return [score_of(name, metric, "model against base", mean(both, seed))] if both else []


def _other_means(role: str, means: Mapping[str, float], scores: list[Score]) -> list[str]:
    """Note where the harness' own mean differs from ours: it takes answers that we leave out for wrong."""
    ours = {score.set: score.value for score in scores if score.who == role}
    return [
        f"{role}, {name}: lm-evaluation-harness itself reports {100 * theirs:.1f} %, with what is left out here as wrong"
        for name, theirs in means.items()
        if not abs(ours[name] - theirs) < 1e-9
    ]
