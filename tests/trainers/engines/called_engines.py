"""An engine as OpenRLHF's executor is given one, whose replies are scripted; and a coordinator in the test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from spy_env import Game, Stage
from tests.trainers import tiny_world
from trainers.cluster.coordinator import Assigned, Coordinator
from trainers.cluster.prompt_rows import PromptRow, RunSettings
from trainers.config import Algo, GameConfig
from trainers.engines import Sampling
from trainers.samples import Sample

TOKENS = tiny_world.tokenizer()
LOGPROB = -0.25
NUMBERS = {TOKENS.convert_tokens_to_ids(str(number)) for number in range(1, 10)}  # read in ballots alone


def params(temperature: float = 1.0, logprobs: int | None = 1) -> SimpleNamespace:
    """The sampling that OpenRLHF's generator makes for every call of a row."""
    return SimpleNamespace(
        temperature=temperature, top_p=1.0, max_tokens=9, min_tokens=1, logprobs=logprobs, stop_token_ids=[]
    )


def finished(ids: Sequence[int], text: str, ended: str, logprobs: int | None) -> SimpleNamespace:
    """A finished request of vLLM's."""
    out = TOKENS(text, add_special_tokens=False)["input_ids"] + [TOKENS.eos_token_id] * (ended == "stop")
    chances = [{token: SimpleNamespace(logprob=LOGPROB)} for token in out] if logprobs is not None else None
    reply = SimpleNamespace(token_ids=out, finish_reason=ended, logprobs=chances)
    return SimpleNamespace(outputs=[reply], prompt_token_ids=list(ids))


class ScriptedCalls:
    """Answers the n-th call by a function of its number and whether it is a vote; keeps the calls."""

    def __init__(self, script: Callable[[int, bool], Any] | None = None) -> None:
        self.script = script or (lambda number, vote: r"\boxed{2}" if vote else "plum fig")
        self.asked: list[tuple[list[int], Any]] = []

    async def generate(self, ids: list[int], sampling: Any) -> SimpleNamespace:
        """Answers when the other calls of the wave have asked, too."""
        number = len(self.asked)
        self.asked.append((ids, sampling))
        await asyncio.sleep(0)
        words = self.script(number, not NUMBERS.isdisjoint(ids))
        if isinstance(words, Exception):
            raise words
        if not isinstance(words, str):
            return await words
        return finished(ids, words, "length" if words.endswith("date") else "stop", sampling.logprobs)


class LocalCoordinator:
    """The coordinator of one engine, without a cluster."""

    def __init__(self, run: RunSettings, engine: str = "here") -> None:
        self.coordinator, self.engine = Coordinator(run), engine
        self.calls: list[str] = []

    async def begin(self, seed: str) -> Assigned:
        self.calls.append(f"begin {seed}")
        return self.coordinator.begin(seed, self.engine)

    async def finish(self, seed: str, games: Sequence[Game], samples: Sequence[Sample]) -> None:
        self.calls.append(f"finish {seed}")
        self.coordinator.finish(seed, self.engine, games, samples)

    async def give_up(self, seed: str) -> None:
        self.calls.append(f"give_up {seed}")
        self.coordinator.give_up(seed, self.engine)

    async def evaluated(self, seed: str, games: Sequence[Game]) -> None:
        self.calls.append(f"evaluated {seed}")
        self.coordinator.evaluated(seed, games)


def settings(folder: Any, **changed: Any) -> RunSettings:
    """A run in the tiny world; ``game`` and ``algo`` hold flags of ``--game.*`` and ``--algo.*``."""
    algo = Algo(**changed.pop("algo", {}))
    game = GameConfig(task=tiny_world.TASK, **{"players": 4, "mask_fraction": 0.2, **changed.pop("game", {})})
    values = {
        "folder": str(folder),
        "checkpoints": str(folder / "checkpoints"),
        "resume": False,
        "task": game.task,
        "rules": game.rules,
        "start": algo.start(game.reward_rules, 7),
        "sampling": {Stage.PERFORMING: Sampling(6), Stage.DETECTION: Sampling(4)},
        "template_options": {},
        "max_len": 64,
        "batch_size": 2,
        "samples": game.players,
        "eval_rows": 2,
        "eval_samples": 3,
        "seed": 7,
        "deadline_s": 5.0,
    }
    return RunSettings(**{**values, **changed})


def prompt_rows(run: RunSettings, count: int, split: str = "train") -> list[PromptRow]:
    """Rows on different documents."""
    return [PromptRow(document, str(i), split, run) for i, document in enumerate(tiny_world.documents(count))]
