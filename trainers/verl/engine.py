"""verl's engines as games ask them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from trainers.cluster.called_engine import CalledEngine
from trainers.engines import Failed, Reply, Request, Sampling
from trainers.engines.vllm_terms import tokens_that_hold


class ServedEngine(CalledEngine):
    """verl's ``LLMServerClient``; the params are its dict of them."""

    async def call(self, prompt_ids: list[int], sampling: Sampling, stops: list[int]) -> Any:
        """Return verl's ``TokenOutput``."""
        params = {**self.params, "max_tokens": sampling.max_new_tokens, "stop_token_ids": stops}
        return await self.engine.generate(request_id=uuid4().hex, prompt_ids=prompt_ids, sampling_params=params)

    def reply(self, output: Any, request: Request) -> Reply | Failed:
        """Return the reply in verl's ``TokenOutput``, whose reason to stop doesn't tell an end from a full length."""
        tokens, sampling = tuple(output.token_ids), request.sampling
        if output.stop_reason == "aborted" or not tokens:
            return Failed(f"the engine ended a reply with {output.stop_reason!r} after {len(tokens)} tokens")
        ends = {*tokens_that_hold(sampling.stop, self.encoder), self.encoder.tokenizer.eos_token_id}
        return Reply(
            text=self.encoder.decode(tokens),
            prefix=sampling.prefill,
            truncated=len(tokens) >= sampling.max_new_tokens and tokens[-1] not in ends,
            prompt_ids=self.encoder.encode(request.prompt, sampling.prefill),
            ids=tokens,
            logprobs=tuple(output.log_probs or ()),
        )
