"""The host in an engine of OpenRLHF: what its executor is called with becomes an invitation and an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from trainers.cluster.coordinator import Direction
from trainers.cluster.group_rollout import Answers
from trainers.cluster.group_rollout import Host as Tables
from trainers.cluster.prompt_rows import TRAIN, Invitation, RunSettings, from_json
from trainers.engines.encoder import Encoder
from trainers.openrlhf.answer import Answer, answer_of, evaluation_of
from trainers.openrlhf.engine import CalledEngine


class Host:
    """The tables of one engine."""

    def __init__(self, direction_of: Callable[[RunSettings], Awaitable[Direction]]) -> None:
        """``direction_of`` finds the director of a run."""
        self.tables = Tables(direction_of, Answers(answer_of, evaluation_of))
        self._encoder: Encoder | None = None

    async def sample(self, text: str, params: Any, max_length: int, tokenizer: Any, llm_engine: Any) -> Answer:
        """One sample of a row. Errors as of ``trainers.cluster.group_rollout.Host.join``."""

        def arrive() -> tuple[Invitation, CalledEngine]:
            invitation = from_json(text)
            _check(invitation, params, max_length)
            encoder = self._encoder_of(invitation, tokenizer)
            return invitation, CalledEngine(llm_engine, encoder, params, invitation.run.deadline_s)

        return await self.tables.join(text, arrive)

    def _encoder_of(self, invitation: Invitation, tokenizer: Any) -> Encoder:
        """One for the whole run, since it remembers prompts; every call brings a tokenizer of its own."""
        if self._encoder is None:
            self._encoder = Encoder(tokenizer, dict(invitation.run.template_options))
        return self._encoder


def _check(invitation: Invitation, params: Any, max_length: int) -> None:
    """OpenRLHF runs with what the rows were prepared for."""
    run = invitation.run
    asked = {"--data.max_len": (max_length, run.max_len), "--rollout.top_p": (params.top_p, 1.0)}
    if invitation.split == TRAIN:
        wanted = {sampling.temperature for sampling in run.sampling.values()}
        asked["--rollout.temperature"] = (params.temperature, *wanted)
    for flag, (found, prepared) in asked.items():
        if found != prepared:
            raise ValueError(
                f"OpenRLHF runs with {flag} {found}, and the prompt data set was prepared for {prepared}; start it with the "
                "command that spyrl openrlhf prints"
            )
