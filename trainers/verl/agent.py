"""The agent loop that verl makes for every sample, and the sample as verl takes it. One worker plays all samples of a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from spy_env import RewardRules
from trainers.cluster.coordinator import CoordinatorClient
from trainers.cluster.coordinator_actor import JobCoordinator
from trainers.cluster.group_rollout import GroupRollout
from trainers.cluster.prompt_rows import TRAIN, PromptRow, RunSettings, Slot, from_json, logs_of, reward_of
from trainers.engines.encoder import Encoder
from trainers.rollout import Played
from trainers.verl.engine import ServedEngine
from trainers.verl.launch import check_as_prepared

Rollouts = WeakKeyDictionary[asyncio.AbstractEventLoop, GroupRollout[AgentLoopOutput]]


class SpyAgentLoop(AgentLoopBase):
    """Plays "Who is the spy?" with the samples of a prompt as players or voters."""

    rollouts: ClassVar[Rollouts] = WeakKeyDictionary()
    find_coordinator: ClassVar[Callable[[RunSettings], Awaitable[CoordinatorClient]]] = JobCoordinator.of_this_job
    encoders: ClassVar[dict[tuple[int, str], Encoder]] = {}  # for the whole run, since they remember prompts

    async def run(self, sampling_params: dict[str, Any], **fields: Any) -> AgentLoopOutput:
        """Return one sample of a row.

        Raises:
            ValueError: the row or verl's settings are not those of a prepared run.
            TimeoutError, GamesFailedError: the row could not be played; every call of it raises this.
        """
        if "session_id" not in fields:
            raise ValueError(
                "verl names no session: with trainer.use_v1=False it plays a prompt's samples apart; leave that out"
            )
        text, step = fields["raw_prompt"][-1]["content"], int(fields["global_steps"])
        rollout = self.rollouts.setdefault(
            asyncio.get_running_loop(), GroupRollout(type(self).find_coordinator, answer_of)
        )
        answer = await rollout.join(text, lambda: self._arrive(text, sampling_params), step)
        answer.extra_fields.update(min_global_steps=step - 1, max_global_steps=step - 1)  # the weights', in sync mode
        return answer

    def _arrive(self, text: str, params: Mapping[str, Any]) -> tuple[PromptRow, ServedEngine]:
        row = from_json(text)
        check_as_prepared(self.config, row.run, params if row.split == TRAIN else None)
        options = row.run.template_options
        encoder = self.encoders.setdefault((id(self.tokenizer), repr(options)), Encoder(self.tokenizer, dict(options)))
        return row, ServedEngine(self.server_manager, encoder, params, row.run.deadline_s)


def answer_of(played: Played, slot: Slot, value: float, rules: RewardRules) -> AgentLoopOutput:
    """Return a slot's reply as verl takes it; the estimator ``spyrl`` hands ``value`` on unchanged.

    Of a reply that isn't trained, whose advantage is 0, only the last token counts, so that no mean is over nothing.
    """
    reply = played.replies[slot.stage][slot.seat]
    logs = logs_of(played.game, slot, reward_of(played.game, slot, rules), reply)
    untrained = 0 if slot.trained else len(reply.ids) - 1
    return AgentLoopOutput(
        prompt_ids=list(reply.prompt_ids),
        response_ids=list(reply.ids),
        response_mask=[0] * untrained + [1] * (len(reply.ids) - untrained),
        response_logprobs=list(reply.logprobs) or None,
        reward_score=value,
        num_turns=2,
        metrics=AgentLoopMetrics(),
        extra_fields={"reward_extra_info": logs, "turn_scores": [], "tool_rewards": []},
    )
