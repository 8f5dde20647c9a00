"""OpenRLHF's rollout with scripted replies: its engine around our executor, no Ray and no weights.

Every reply ends in ids of its own, by which its sample is known wherever it turns up.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from openrlhf.trainer.ray.vllm_engine import RolloutRayActor, _load_agent_executor
from vllm import SamplingParams
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput, RequestOutput

import trainers.openrlhf
from tests.trainers import tiny_world
from tests.trainers.engines.called_engines import LocalCoordinator
from trainers.cluster.prompt_rows import PromptRow, RunSettings, to_json
from trainers.openrlhf.engine import EngineRollout

AGENT = Path(trainers.openrlhf.__file__).with_name("agent.py")
PERFORMANCE, VOTE = 40, 30  # tokens at most, by which the script knows what it is asked for
TAIL = 12  # ids at the end of a reply that no other reply ends in
Rollout = RolloutRayActor.__ray_metadata__.modified_class  # the class that OpenRLHF makes an actor of


class ScriptedRollout(Rollout):
    """OpenRLHF's engine without vLLM. ``votes`` are what the voters of a row say: a number, or ``?`` for any of them,
    or nothing that can be read.
    """

    def __init__(self, run: RunSettings, seed: int = 0) -> None:
        self.executor = _load_agent_executor(str(AGENT))
        self.local = LocalCoordinator(run)

        async def find_coordinator(_: RunSettings) -> LocalCoordinator:
            return self.local

        self.executor.rollout = EngineRollout(find_coordinator)  # the executor's own asks Ray for the coordinator
        self.tokenizer = tiny_world.tokenizer()
        self.votes, self._random = "", Random(seed)

    async def generate(self, prompt_token_ids: list[int], sampling_params: Any, multi_modal_data: Any = None) -> Any:
        words = self._random.choices(tiny_world.WORDS, k=self._random.randint(TAIL, 20))
        said = " ".join(words) + (self._vote() if sampling_params.max_tokens == VOTE else "")
        ids = self.tokenizer(said + self._random.choice(["", " <end>"]), add_special_tokens=False)["input_ids"]
        await asyncio.sleep(self._random.random() / 100)  # replies come in any order
        end = "stop" if ids[-1] == self.tokenizer.eos_token_id else "length"
        logprobs = [{token: Logprob(-self._random.random())} for token in ids]
        done = CompletionOutput(0, said, ids, None, logprobs, finish_reason=end)
        return RequestOutput("", None, prompt_token_ids, None, [done], finished=True)

    def _vote(self) -> str:
        vote = self._random.choice("1234x" if self.votes == "?" else self.votes)
        return f" \\boxed{{{vote}}}" if vote.isdigit() else ""

    def play(self, row: PromptRow, votes: str) -> list[dict[str, Any]]:
        """The samples of a row, as OpenRLHF's engine gathers them."""
        self.votes = votes
        run = row.run
        params = SamplingParams(temperature=1.0, top_p=1.0, top_k=-1, max_tokens=PERFORMANCE, min_tokens=1, logprobs=1)
        return asyncio.run(
            self.generate_responses(to_json(row), "", params, run.max_len, self.tokenizer, num_samples=row.samples)
        )
