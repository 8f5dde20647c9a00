"""vLLM as an engine, inside the trainer's process: token in, token out, weights handed over as tensors.

vLLM itself is imported when an engine is made, not before: it reads the environment then.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainers.engines.encoder import Encoder, EncodingReader, pad_token, tokens_that_hold
from trainers.engines.protocol import Failed, Reply, Request
from trainers.engines.vllm_terms import (
    check_version,
    engine_arguments,
    installed_versions,
    reply_of,
    sampling_params,
    set_environment,
)

_OPEN: list[Any] = []  # closes this process's engine; one at a time, since vLLM keeps global state
Weights = Iterable[tuple[str, Tensor]]


class VllmEngine(EncodingReader):
    """A model in vLLM, with the encoder and the ends of replies that the trainer uses."""

    def __init__(self, folder: str, encoder: Encoder, ends: frozenset[int], **settings: Any) -> None:
        """Load a transformers folder; ``settings`` go to ``engine_arguments``.

        Raises:
            ValueError: vLLM isn't installed in the version that we tried, or can't serve the model.
        """
        # Refuse wrong settings, and close the engine before, while vLLM isn't yet imported.
        check_version(installed_versions())
        on_cpu = not torch.cuda.is_available()
        arguments = engine_arguments(folder, on_cpu=on_cpu, **settings)
        set_environment(os.environ, on_cpu)
        while _OPEN:
            _OPEN.pop()()
        from vllm import EngineArgs, SamplingParams
        from vllm.exceptions import VLLMError
        from vllm.v1.engine.llm_engine import LLMEngine

        self.encoder, self.pad = encoder, pad_token(encoder.tokenizer, ends)
        self._ends, self._count = ends, itertools.count()
        self._params, self._refusal = SamplingParams, VLLMError
        try:
            with _global_chance_kept():
                self._engine: Any = LLMEngine.from_engine_args(EngineArgs(**arguments))
        except (ValueError, RuntimeError, VLLMError) as error:
            raise ValueError(
                f"vLLM can't serve {folder!r} ({error}); --rollout.engine transformers serves every model"
            ) from error
        # Without a shutdown, vLLM's memory isn't given back with the engine.
        self._close = weakref.finalize(self, self._engine.engine_core.shutdown)
        _OPEN.append(self._close)

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Sample every request at its temperature. A request that vLLM refuses or gives up fails alone."""
        self._check_open()
        # vLLM knows requests by names; each is used once in an engine's life.
        named = {f"{next(self._count)}": request for request in requests}
        with _global_chance_kept():
            # Queue all, keep the refusals; then step until vLLM has finished the others, which end in any order.
            answers: dict[str, Reply | Failed] = {
                name: failed for name, request in named.items() if (failed := self._queue(name, request))
            }
            while self._engine.has_unfinished_requests():
                for output in self._engine.step():
                    if output.finished:
                        answers[output.request_id] = reply_of(output, named[output.request_id], self.encoder)
        return [answers[name] for name in named]

    def _queue(self, name: str, request: Request) -> Failed | None:
        """Hand a request to vLLM, or return its refusal."""
        prompt_ids = self.encoder.encode(request.prompt, request.sampling.prefill)
        ends = self._ends | tokens_that_hold(request.sampling.stop, self.encoder)
        params = self._params(**sampling_params(request, ends))
        try:
            self._engine.add_request(name, {"prompt_token_ids": list(prompt_ids)}, params)
        except self._refusal as error:
            self._engine.abort_request([name])
            return Failed(f"vLLM refused a prompt of {len(prompt_ids)} tokens: {error}")
        return None

    def take(self, weights: Weights) -> None:
        """Play with these weights from now on, named as in plain transformers; forget prefixes cached with others.

        Raises:
            ValueError: vLLM's model has weights that are not among them.
        """
        self._check_open()
        (missing,) = self._engine.collective_rpc(_load, args=(weights,))
        if missing:
            raise ValueError(
                f"vLLM has weights that the trainer does not name: {missing[:3]}; this architecture needs "
                "--rollout.engine transformers"
            )
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("vLLM keeps prefixes that were computed with earlier weights; make a new engine")

    def _check_open(self) -> None:
        if not self._close.alive:
            raise RuntimeError("this vLLM engine was closed when another was made; a process has one at a time")


def _load(worker: Any, weights: Weights) -> list[str]:
    """Load weights in vLLM's worker, and prepare them as at its start. Return the names of weights not loaded."""
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, UnquantizedEmbeddingMethod
    from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

    model, config = worker.model_runner.get_model(), worker.vllm_config
    expected = {name for name, _ in model.named_parameters()}
    with torch.no_grad(), set_current_vllm_config(config):
        # Each layer is rebuilt as it was before vLLM packed it, filled, and packed anew, one after the other.
        initialize_layerwise_reload(model)
        loaded = model.load_weights(weights)
        finalize_layerwise_reload(model, config.model_config)
        # A head tied to the embeddings isn't loaded, but on a CPU it has a packed copy (V, D) of them.
        for module in model.modules():
            if isinstance(module, ParallelLMHead) and isinstance(module.quant_method, UnquantizedEmbeddingMethod):
                module.quant_method.process_weights_after_loading(module)
    return sorted(expected - loaded)


@contextlib.contextmanager
def _global_chance_kept() -> Iterator[None]:
    """Leave the global generators as they were: vLLM seeds them all when it starts, and draws from torch's on a CPU."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
