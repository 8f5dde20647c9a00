"""verl's engines, as a table asks them: one request at a time, token in, token out."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any
from uuid import uuid4

from trainers.engines import Failed, Reply, Request
from trainers.engines.encoder import Encoder, tokens_that_hold


class ServedEngine:
    """verl's client of its engines, with the sampling that verl wants."""

    def __init__(self, client: Any, encoder: Encoder, params: Mapping[str, Any], deadline_s: float) -> None:
        """``client`` is an ``LLMServerClient``; ``params`` are shared by all calls, and copied for each."""
        self._client, self.encoder, self._params, self._deadline = client, encoder, params, deadline_s

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """The prompt's length in tokens, chat template and prefill included."""
        return len(self.encoder.encode(prompt, prefill))

    async def generate(self, request: Request) -> Reply | Failed:
        """One reply. Whatever the engine raises is the infrastructure's, and so is a reply that never comes."""
        sampling = request.sampling
        ids = self.encoder.encode(request.prompt, sampling.prefill)
        stops = tokens_that_hold(sampling.stop, self.encoder)
        params = {
            **self._params,
            "max_tokens": sampling.max_new_tokens,
            "stop_token_ids": sorted(stops),
        }
        asked = self._client.generate(request_id=uuid4().hex, prompt_ids=list(ids), sampling_params=params)
        try:
            output = await asyncio.wait_for(asked, self._deadline)
        except TimeoutError:
            return Failed(f"no reply within {self._deadline:g} s")
        except Exception as error:  # the engines and Ray raise many kinds; a bug of ours is not in there
            return Failed(f"the engine raised {type(error).__name__}: {error}")
        return self._reply(output, request, ids, {*stops, self.encoder.tokenizer.eos_token_id})

    def _reply(self, output: Any, request: Request, ids: tuple[int, ...], ends: Collection[int]) -> Reply | Failed:
        said = tuple(output.token_ids)
        if output.stop_reason == "aborted" or not said:
            return Failed(f"the engine ended a reply with {output.stop_reason!r} after {len(said)} tokens")
        return Reply(
            text=self.encoder.decode(said),
            prefix=request.sampling.prefill,
            truncated=len(said) >= request.sampling.max_new_tokens and said[-1] not in ends,
            prompt_ids=ids,
            ids=said,
            logprobs=tuple(output.log_probs or ()),
        )
