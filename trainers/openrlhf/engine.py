"""OpenRLHF's vLLM engine, as a table asks it: one request at a time, token in, token out."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

from trainers.engines import Failed, Reply, Request
from trainers.engines.encoder import Encoder, tokens_that_hold
from trainers.engines.vllm_terms import reply_of


class CalledEngine:
    """The engine that a call was given, with the sampling that OpenRLHF wants."""

    def __init__(self, llm_engine: Any, encoder: Encoder, params: Any, deadline_s: float) -> None:
        """``llm_engine`` has ``generate(prompt_token_ids, sampling_params)``; ``params`` are vLLM's, shared by all calls."""
        self._engine, self.encoder, self._params, self._deadline = llm_engine, encoder, params, deadline_s

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """The prompt's length in tokens, chat template and prefill included."""
        return len(self.encoder.encode(prompt, prefill))

    async def generate(self, request: Request) -> Reply | Failed:
        """One reply. Whatever the engine raises is the infrastructure's, and so is a reply that never comes."""
        ids = list(self.encoder.encode(request.prompt, request.sampling.prefill))
        try:
            output = await asyncio.wait_for(self._engine.generate(ids, self._params_of(request)), self._deadline)
        except TimeoutError:
            return Failed(f"no reply within {self._deadline:g} s")
        except Exception as error:  # vLLM and Ray raise many kinds; a bug of ours is not in there
            return Failed(f"the engine raised {type(error).__name__}: {error}")
        return reply_of(output, request, self.encoder)

    def _params_of(self, request: Request) -> Any:
        """A copy for one request. At least one token (OpenRLHF's) would bend the distribution of the first."""
        params = deepcopy(self._params)
        params.max_tokens, params.min_tokens = request.sampling.max_new_tokens, 0
        params.stop_token_ids = sorted(tokens_that_hold(request.sampling.stop, self.encoder))
        return params
