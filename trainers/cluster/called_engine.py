"""A trainer's own engine as games ask it: one request at a time, token in, token out."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from trainers.engines import Failed, Reply, Request, Sampling
from trainers.engines.encoder import Encoder
from trainers.engines.vllm_terms import tokens_that_hold


class CalledEngine(ABC):
    """An engine that is asked for one reply at a time, and batches by itself the requests of the same time."""

    def __init__(self, engine: Any, encoder: Encoder, params: Any, deadline_s: float) -> None:
        """``params`` are the sampling that the trainer wants, shared by all calls. A reply may take ``deadline_s`` seconds."""
        self.engine, self.encoder, self.params, self._deadline = engine, encoder, params, deadline_s

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """Return the prompt's length in tokens, chat template and prefill included."""
        return len(self.encoder.encode(prompt, prefill))

    async def generate(self, request: Request) -> Reply | Failed:
        """Return one reply. An error of the engine is the infrastructure's, and so is a reply that never comes."""
        ids = self.encoder.encode(request.prompt, request.sampling.prefill)
        stops = tokens_that_hold(request.sampling.stop, self.encoder)
        try:
            output = await asyncio.wait_for(self.call(list(ids), request.sampling, sorted(stops)), self._deadline)
        except TimeoutError:
            return Failed(f"no reply within {self._deadline:g} s")
        except Exception as error:  # vLLM, verl and Ray raise many kinds
            return Failed(f"the engine raised {type(error).__name__}: {error}")
        return self.reply(output, request)

    @abstractmethod
    async def call(self, prompt_ids: list[int], sampling: Sampling, stops: list[int]) -> Any:
        """Return the engine's output; a reply ends at one of the tokens ``stops``."""

    @abstractmethod
    def reply(self, output: Any, request: Request) -> Reply | Failed:
        """Return the reply in the engine's output."""
