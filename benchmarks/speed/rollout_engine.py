"""vLLM's asynchronous engine, made and called as OpenRLHF's rollout actor does, with replies of fixed length.

It runs in a process of its own, whose CPU seconds are counted, too.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.rollout_order import Generated
from trainers.engines.vllm_terms import check_version, installed_versions, set_environment

WARM_PROMPT, WARM_REPLY = 64, 8  # tokens; ours


class FixedLengthEngine:
    """A model in vLLM. ``generated`` holds the requests since the last ``forget``."""

    def __init__(self, folder: str, max_len: int, block: int | None = None) -> None:
        """Load a transformers folder. ``block`` is the cache's, in tokens; OpenRLHF leaves it to vLLM.

        Raises:
            ValueError: vLLM isn't installed as it was tried.
        """
        check_version(installed_versions())
        on_cpu = not torch.cuda.is_available()
        set_environment(os.environ, on_cpu)
        import vllm

        arguments: dict[str, Any] = {
            "model": folder,
            "dtype": "float32" if on_cpu else "bfloat16",  # OpenRLHF always takes bfloat16, too slow on a CPU
            "enforce_eager": on_cpu,
            "tensor_parallel_size": 1,
            "distributed_executor_backend": "uni",
            "seed": 0,
            "max_model_len": max_len,
            "enable_prefix_caching": True,
            "logprobs_mode": "processed_logprobs",
            "max_logprobs": 1,
            **({} if block is None else {"block_size": block}),
        }
        self._llm: Any = vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(**arguments))
        self._vllm = vllm
        self.block: int = self._llm.vllm_config.cache_config.block_size
        self.batched_tokens: int = self._llm.vllm_config.scheduler_config.max_num_batched_tokens
        self.generated: list[Generated] = []

    def params(self, length: int = 1) -> Any:
        """Return sampling parameters as OpenRLHF gives them to an executor, with ``is_correction_level token``."""
        return self._vllm.SamplingParams(
            temperature=1.0,
            top_p=1.0,
            top_k=-1,
            max_tokens=length,
            min_tokens=1,
            skip_special_tokens=False,
            logprobs=1,
        )

    async def generate(self, prompt_token_ids: list[int], sampling_params: Any) -> Any:
        """Generate a reply of exactly ``max_tokens``: no token ends it earlier."""
        params = deepcopy(sampling_params)
        params.min_tokens = params.max_tokens
        prompt = self._vllm.inputs.TokensPrompt(prompt_token_ids=prompt_token_ids)
        generating = self._llm.generate(prompt, params, request_id=self._vllm.utils.random_uuid())
        output = [state async for state in generating][-1]
        self.generated.append(
            Generated(tuple(prompt_token_ids), output.num_cached_tokens, len(output.outputs[0].token_ids))
        )
        return output

    async def warm_up(self) -> None:
        """Pay the costs of a first request."""
        await self.generate(list(range(5, 5 + WARM_PROMPT)), self.params(WARM_REPLY))

    async def forget(self) -> None:
        """Empty the cache and the list of requests."""
        self.generated = []
        if not await self._llm.reset_prefix_cache():
            raise RuntimeError("vLLM holds on to its cache, so there is nothing to measure")

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of this process and the engine's; Linux only."""
        return time.process_time() + sum(_seconds_of(child.pid) for child in multiprocessing.active_children())

    def close(self) -> None:
        """End the engine's process."""
        self._llm.shutdown()


def _seconds_of(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime, see proc(5)
