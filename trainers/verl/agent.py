"""The agent loop that verl makes for every sample; the samples of a prompt, which one worker plays, meet at a table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

from trainers.cluster.coordinator import Direction
from trainers.cluster.coordinator_actor import JobDirector
from trainers.cluster.group_rollout import Answers, Host
from trainers.cluster.prompt_rows import TRAIN, Invitation, RunSettings, from_json
from trainers.engines.encoder import Encoder
from trainers.verl.answer import answer_of, evaluation_of
from trainers.verl.engine import ServedEngine
from trainers.verl.settings_check import check_settings


class SpyAgentLoop(AgentLoopBase):
    """Plays "Who is the spy?" with the samples of a prompt as players or voters."""

    hosts: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, Host[AgentLoopOutput]]] = WeakKeyDictionary()
    direction_of: ClassVar[Callable[[RunSettings], Awaitable[Direction]]] = JobDirector.of_this_job
    encoders: ClassVar[dict[tuple[int, str], Encoder]] = {}

    async def run(self, sampling_params: dict[str, Any], **fields: Any) -> AgentLoopOutput:
        """One sample of a row, whose text is an invitation.

        Raises:
            ValueError: the row or verl's settings are not those of a prepared run.
            TimeoutError, GamesFailedError: the row could not be played; all of its samples are told.
        """
        if "session_id" not in fields:
            raise ValueError(
                "verl tells no session: trainer.use_v1=False, whose trainer plays a prompt's samples apart"
            )
        text, step = fields["raw_prompt"][-1]["content"], int(fields["global_steps"])
        host = self.hosts.setdefault(asyncio.get_running_loop(), Host(type(self).direction_of, _ANSWERS))
        answer = await host.join(text, lambda: self._arrived(text, sampling_params), step)
        answer.extra_fields.update(min_global_steps=step - 1, max_global_steps=step - 1)  # the weights', in sync mode
        return answer

    def _arrived(self, text: str, params: Mapping[str, Any]) -> tuple[Invitation, ServedEngine]:
        invitation = from_json(text)
        run = invitation.run
        check_settings(self.config, run, params if invitation.split == TRAIN else None)
        return invitation, ServedEngine(self.server_manager, self._encoder(run), params, run.deadline_s)

    def _encoder(self, run: RunSettings) -> Encoder:
        """One for the whole run, since it remembers prompts."""
        key = (id(self.tokenizer), repr(run.template_options))
        if key not in self.encoders:
            self.encoders[key] = Encoder(self.tokenizer, dict(run.template_options))
        return self.encoders[key]


_ANSWERS: Answers[AgentLoopOutput] = Answers(answer_of, evaluation_of)
