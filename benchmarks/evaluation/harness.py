"""lm-evaluation-harness runs our task files, and our engines are its model: its tasks run wherever a contestant does, and resume."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.generations import Answer, Ask, Finished, answer_all
from benchmarks.evaluation.grading import check_installed
from benchmarks.evaluation.problems import PROBLEM_SETS, Problems
from trainers import disk
from trainers.engines import Sampling

SHORTEST = 256  # tokens of a reply; a prompt that leaves no room for them is left out. Ours


class EngineLM(LM):
    """A contestant, as the harness asks it; keeps the answers by set, item and sample.

    The prompt is one user message: an engine, or an endpoint, puts it into the model's chat template. ``too_long``
    counts, by set, the samples whose prompt leaves no room to answer, and ``shortened`` those with less than the task's.
    """

    def __init__(self, who: Contestant, finished: Finished, seed: int, what: str) -> None:
        """``what`` names the progress bar."""
        super().__init__()
        self._who, self._finished, self._seed, self._what = who, finished, seed, what
        self.answers: dict[str, dict[str, list[Answer]]] = {}
        self.too_long: Counter[str] = Counter()
        self.shortened: Counter[str] = Counter()

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """The texts of all requests, in order; empty where there is none.

        Raises:
            UnreachableError: the endpoint is down.
        """
        samples: Counter[tuple[str, str]] = Counter()
        asks = []
        for request in requests:
            prompt, wanted = request.args
            name, item = str(request.task_name).removeprefix("spyrl_"), request.doc["id"]
            asks.append(Ask(name, item, prompt, sampling_of(wanted), samples[name, item]))
            samples[name, item] += 1
        room = {prompt: self._room(prompt) for prompt in {ask.prompt for ask in asks}}
        fitting = [ask for ask in asks if room[ask.prompt] >= min(SHORTEST, ask.sampling.max_new_tokens)]
        written = dict(
            zip(
                [(ask.set, ask.item, ask.sample) for ask in fitting],
                answer_all(self._who, fitting, self._finished, self._seed, self._what),
                strict=True,
            )
        )
        for ask in asks:
            answer = written.get((ask.set, ask.item, ask.sample))
            self.too_long[ask.set] += answer is None
            self.shortened[ask.set] += answer is not None and room[ask.prompt] < ask.sampling.max_new_tokens
            of_item = self.answers.setdefault(ask.set, {}).setdefault(ask.item, [])
            if answer is not None:
                of_item.append(answer)
        return [written.get((ask.set, ask.item, ask.sample), Answer()).text for ask in asks]

    def _room(self, prompt: str) -> float:
        """Tokens that are left for a reply."""
        if self._who.max_len is None:
            return float("inf")
        return self._who.max_len - self._who.reader.count_tokens(prompt, "")

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """None of our tasks asks for it, and an endpoint can't tell it."""
        raise NotImplementedError("these engines write texts; they tell no likelihoods")

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """None of our tasks asks for it, and an endpoint can't tell it."""
        raise NotImplementedError("these engines write texts; they tell no likelihoods")


_KNOWN = {"until", "do_sample", "temperature", "top_p", "top_k", "max_gen_toks"}


def sampling_of(wanted: Mapping[str, Any]) -> Sampling:
    """A task file's ``generation_kwargs`` as we sample.

    Raises:
        ValueError: a task asks for what engines don't have.
    """
    until: Sequence[str] = wanted.get("until") or ()
    if (unknown := set(wanted) - _KNOWN) or len(until) > 1:
        raise ValueError(
            f"generation_kwargs {dict(wanted)}: no engine here takes {sorted(unknown) or 'several stops'}; use {sorted(_KNOWN)}"
        )
    sampled = bool(wanted.get("do_sample"))
    return Sampling(
        int(wanted["max_gen_toks"]),
        temperature=float(wanted["temperature"]) if sampled else 1.0,
        stop=until[0] if until else "",
        greedy=not sampled,
        top_p=float(wanted.get("top_p", 1.0)) if sampled else 1.0,
        top_k=int(wanted.get("top_k", 0)) if sampled else 0,
    )


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

            from benchmarks.evaluation.harness import EngineLM
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
