"""OpenRLHF's side of a call: its vLLM engine as games ask it, the sample as it takes it, and the rows that play there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

from spy_env import RewardRules
from trainers.cluster.called_engine import CalledEngine
from trainers.cluster.coordinator import CoordinatorClient
from trainers.cluster.group_rollout import GroupRollout
from trainers.cluster.prompt_rows import TRAIN, PromptRow, RunSettings, Slot, from_json, logs_of, reward_of
from trainers.engines import Failed, Reply, Request, Sampling
from trainers.engines.encoder import Encoder
from trainers.engines.vllm_terms import reply_of
from trainers.rollout import Played

Answer = dict[str, Any]


class VllmEngine(CalledEngine):
    """The engine that a call brings, with ``generate(prompt_token_ids, sampling_params)``; the params are vLLM's."""

    async def call(self, prompt_ids: list[int], sampling: Sampling, stops: list[int]) -> Any:
        """Return vLLM's finished request. OpenRLHF's minimum of one token would bend the distribution of the first."""
        params = deepcopy(self.params)
        params.max_tokens, params.min_tokens, params.stop_token_ids = sampling.max_new_tokens, 0, stops
        return await self.engine.generate(prompt_ids, params)

    def reply(self, output: Any, request: Request) -> Reply | Failed:
        """Return the reply in vLLM's finished request."""
        return reply_of(output, request, self.encoder)


class EngineRollout(GroupRollout[Answer]):
    """The rows that are played on one engine of OpenRLHF's, in the engine's own process."""

    def __init__(self, find_coordinator: Callable[[RunSettings], Awaitable[CoordinatorClient]]) -> None:
        """``find_coordinator`` is called with the settings of the first row."""
        super().__init__(find_coordinator, answer_of)
        self._encoder: Encoder | None = None

    async def sample(self, text: str, params: Any, max_length: int, tokenizer: Any, llm_engine: Any) -> Answer:
        """Return one sample of a row. Raises as ``join`` does."""

        def arrive() -> tuple[PromptRow, VllmEngine]:
            row = from_json(text)
            _check_call(row, params, max_length)
            if self._encoder is None:  # one for the run, since it remembers prompts; every call has its own tokenizer
                self._encoder = Encoder(tokenizer, dict(row.run.template_options))
            return row, VllmEngine(llm_engine, self._encoder, params, row.run.deadline_s)

        return await self.join(text, arrive)


def _check_call(row: PromptRow, params: Any, max_length: int) -> None:
    """Check that OpenRLHF runs with the settings that the rows were prepared for."""
    run = row.run
    settings = {"--data.max_len": (max_length, run.max_len), "--rollout.top_p": (params.top_p, 1.0)}
    if row.split == TRAIN:
        (temperature,) = {sampling.temperature for sampling in run.sampling.values()}
        settings["--rollout.temperature"] = (params.temperature, temperature)
    for flag, (value, prepared) in settings.items():
        if value != prepared:
            raise ValueError(
                f"OpenRLHF runs with {flag} {value}, and the prompt data set was prepared for {prepared}; start it with the "
                "command that spyrl openrlhf prints"
            )


def answer_of(played: Played, slot: Slot, value: float, rules: RewardRules) -> Answer:
    """Return a slot's reply as OpenRLHF takes it.

    ``reward`` is ``value``: the finished advantage, which the estimator ``dr_grpo`` hands on unchanged, or in evaluations
    the game's hits, which OpenRLHF reports as pass1. ``scores`` is the reward that the game pays. Of a reply that isn't
    trained, whose advantage is 0, only the last token counts as an action: a sample without any makes OpenRLHF's metrics
    NaN.
    """
    reply = played.replies[slot.stage][slot.seat]
    tokens = [*reply.prompt_ids, *reply.ids]
    begin = len(reply.prompt_ids) if slot.trained else len(tokens) - 1
    reward = reward_of(played.game, slot, rules)
    return {
        "reward": value,
        "scores": reward,
        "observation_tokens": tokens,
        "action_ranges": [(begin, len(tokens))],
        "rollout_log_probs": [0.0] * len(reply.prompt_ids) + list(reply.logprobs) if reply.logprobs else None,
        "truncated": reply.truncated,
        "extra_logs": logs_of(played.game, slot, reward, reply),
        "mm_train_inputs": None,
    }
