"""lm-evaluation-harness runs our task files on our engines, so its tasks run wherever a contestant does, and resume.

Only the reasoning suite imports this module, and only to generate: the harness is in the eval extra.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval import evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.generations import Answer, Ask, Finished, answer_all
from benchmarks.evaluation.problems import PROBLEM_SETS, Problems
from trainers import disk
from trainers.engines import Sampling

TASKS = Path(__file__).with_name("tasks")
SHORTEST = 256  # tokens of a reply; a prompt that leaves no room for them is left out. Ours


@dataclass(frozen=True, slots=True)
class Written:
    """A contestant's answers by set and item, and by set the harness' own means.

    ``too_long`` counts the samples whose prompt leaves no room to answer, ``shortened`` those with less than the task's.
    """

    answers: dict[str, dict[str, list[Answer]]] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    too_long: Counter[str] = field(default_factory=Counter)
    shortened: Counter[str] = field(default_factory=Counter)


def answered(
    problems: Mapping[str, Problems], who: Contestant, folder: Path, samples: int, seed: int, label: str
) -> Written:
    """Have a contestant answer all problems, but for what it has finished in ``folder``; ``label`` names the progress bar.

    Raises:
        UnreachableError: the endpoint is down.
    """
    (folder / "items").mkdir(parents=True, exist_ok=True)
    for name, chosen in problems.items():
        rows = "".join(json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in chosen.rows)
        disk.write_whole(folder / "items" / f"{name}.jsonl", rows)
    model = EngineLM(who, Finished(folder / "generations.jsonl"), seed, label)
    with _quiet():
        manager = TaskManager(include_path=TASKS, include_defaults=False, metadata={"items": str(folder / "items")})
        tasks = manager.load([f"spyrl_{name}" for name in problems])
        for name in problems:
            if PROBLEM_SETS[name].sampled:
                tasks["tasks"][f"spyrl_{name}"].set_config("repeats", samples)
        # simple_evaluate would seed globally and list the machine's packages first. The intervals are ours, over problems.
        results: Any = evaluate(model, tasks, bootstrap_iters=0, log_samples=False)
    for name in problems:
        model.written.means[name] = results["results"][f"spyrl_{name}"]["right,all"]
    return model.written


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the harness, which logs its settings as warnings; ours are in the results."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class EngineLM(LM):
    """A contestant as the harness asks it. The prompt is one user message, which the engine puts into the chat template."""

    def __init__(self, who: Contestant, finished: Finished, seed: int, label: str) -> None:
        super().__init__()
        self._who, self._finished, self._seed, self._label = who, finished, seed, label
        self.written = Written()

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Return the texts of all requests, in order; empty where there is none.

        Raises:
            UnreachableError: the endpoint is down.
        """
        samples: Counter[tuple[str, str]] = Counter()
        asks = []
        for request in requests:
            prompt, settings = request.args
            name, item = str(request.task_name).removeprefix("spyrl_"), request.doc["id"]
            asks.append(Ask(name, item, prompt, sampling_of(settings), samples[name, item]))
            samples[name, item] += 1
        room = {prompt: self._room(prompt) for prompt in {ask.prompt for ask in asks}}
        fitting = [ask for ask in asks if room[ask.prompt] >= min(SHORTEST, ask.sampling.max_new_tokens)]
        replies = answer_all(self._who, fitting, self._finished, self._seed, self._label)
        answers = dict(zip(fitting, replies, strict=True))
        for ask in asks:
            of_item = self.written.answers.setdefault(ask.set, {}).setdefault(ask.item, [])
            if ask in answers:
                of_item.append(answers[ask])
                self.written.shortened[ask.set] += room[ask.prompt] < ask.sampling.max_new_tokens
            else:
                self.written.too_long[ask.set] += 1
        return [answers[ask].text if ask in answers else "" for ask in asks]

    def _room(self, prompt: str) -> float:
        """Count the tokens that are left for a reply."""
        if self._who.max_len is None:
            return float("inf")
        return self._who.max_len - self._who.reader.count_tokens(prompt, "")

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Refuse: none of our tasks asks for likelihoods, and an endpoint knows none."""
        raise NotImplementedError("these engines write texts and know no likelihoods; use a task that generates")

    loglikelihood_rolling = loglikelihood


_SETTINGS = {"until", "do_sample", "temperature", "top_p", "top_k", "max_gen_toks"}


def sampling_of(settings: Mapping[str, Any]) -> Sampling:
    """Turn a task file's ``generation_kwargs`` into our sampling.

    Raises:
        ValueError: a setting that no engine here has.
    """
    until: Sequence[str] = settings.get("until") or ()
    if (unknown := set(settings) - _SETTINGS) or len(until) > 1:
        raise ValueError(
            f"generation_kwargs {dict(settings)}: no engine here takes {sorted(unknown) or 'several stops'}; use {sorted(_SETTINGS)}"
        )
    longest, stop = int(settings["max_gen_toks"]), until[0] if until else ""
    if not settings.get("do_sample"):
        return Sampling(longest, stop=stop, greedy=True)
    return Sampling(
        longest,
        temperature=float(settings["temperature"]),
        stop=stop,
        top_p=float(settings.get("top_p", 1.0)),
        top_k=int(settings.get("top_k", 0)),
    )
