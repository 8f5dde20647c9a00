"""Run our task files by lm-evaluation-harness, on the problems that were chosen."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.finished import Finished
from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.grading import check_installed
from benchmarks.evaluation.problems import PROBLEM_SETS, Problems
from trainers import disk

TASKS = Path(__file__).with_name("tasks")


@dataclass(frozen=True, slots=True)
class Written:
    """What a contestant wrote, by set and item, and the harness' own mean of each set.

    ``too_long`` and ``shortened`` count samples by set: without an answer, and with less room than the task gives.
    """

    answers: Mapping[str, Mapping[str, list[Answer]]]
    means: Mapping[str, float]
    too_long: Mapping[str, int]
    shortened: Mapping[str, int]


def answered(
    problems: Mapping[str, Problems], who: Contestant, folder: Path, samples: int, seed: int, what: str
) -> Written:
    """A contestant's answers to all problems; those finished in ``folder`` aren't generated again.

    Raises:
        ValueError: the harness, or what grades, isn't installed.
        UnreachableError: the endpoint is down.
    """
    try:
        with _quiet():
            from lm_eval import evaluate
            from lm_eval.tasks import TaskManager

            from benchmarks.evaluation.engine_lm import EngineLM
    except ImportError as error:
        raise ValueError(f"the reasoning suite needs the eval extra ({error}): pip install 'spy-env[eval]'") from error
    check_installed()  # before anything is paid for
    for name, chosen in problems.items():
        rows = "".join(json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in chosen.rows)
        (folder / "items").mkdir(parents=True, exist_ok=True)
        disk.write_whole(folder / "items" / f"{name}.jsonl", rows)
    model = EngineLM(who, Finished(folder / "generations.jsonl"), seed, what)
    with _quiet():
        manager = TaskManager(include_path=TASKS, include_defaults=False, metadata={"items": str(folder / "items")})
        tasks: Any = manager.load([f"spyrl_{name}" for name in problems])
        for name in problems:
            if PROBLEM_SETS[name].sampled:
                tasks["tasks"][f"spyrl_{name}"].set_config("repeats", samples)
        # What simple_evaluate calls: that one would seed globally and list the machine's packages first. The intervals
        # are ours, over problems.
        found: Any = evaluate(model, tasks, bootstrap_iters=0, log_samples=False)
    means = {name: found["results"][f"spyrl_{name}"]["right,all"] for name in problems}
    return Written(model.answers, means, dict(model.too_long), dict(model.shortened))


@contextmanager
def _quiet() -> Iterator[None]:
    """The harness logs its settings as warnings; ours are in the results."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
