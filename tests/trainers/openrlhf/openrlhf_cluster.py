"""A Ray cluster with invented GPUs, and in it OpenRLHF's own engines on a random model; and a second job of that cluster."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from openrlhf.trainer.ray.vllm_engine import create_vllm_engines
from vllm import SamplingParams

from spy_env import Stage
from tests.trainers import tiny_world
from tests.trainers.engines import called_engines, vllm_models
from trainers.cluster.coordinator_actor import NAMESPACE
from trainers.cluster.prompt_rows import EVAL, PromptRow, RunSettings, to_json
from trainers.engines import Sampling

MAX_LEN = 96
ROOM = {"num_cpus": 8, "num_gpus": 4, "include_dashboard": False, "object_store_memory": 200 * 2**20}
# Half of what a random model says after this is a vote.
SAMPLING = {Stage.PERFORMING: Sampling(6), Stage.DETECTION: Sampling(3, prefill="\\boxed{", stop="}")}


@contextmanager
def cluster() -> Iterator[str]:
    """A cluster of its own; gives its address."""
    folder = tempfile.mkdtemp(prefix="ray")  # short, as a socket's path has few characters
    try:
        yield ray.init(**ROOM, _temp_dir=folder).address_info["address"]
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def model_folder(folder: Path) -> str:
    """A random model that the engines can serve."""
    return vllm_models.save("llama", folder)


def engines(count: int, model: str) -> list[Any]:
    """OpenRLHF's, when they are ready."""
    agent = Path(__file__).with_name("troubled_agent.py")
    made = create_vllm_engines(
        count,
        tensor_parallel_size=1,
        pretrain=model,
        seed=1,
        full_determinism=False,
        enable_prefix_caching=True,
        enforce_eager=True,
        max_model_len=MAX_LEN,
        gpu_memory_utilization=0.5,
        logprobs_mode="processed_logprobs",
        agent_func_path=str(agent),
    )
    ray.get([engine.get_num_unfinished_requests.remote() for engine in made], timeout=300)
    return made


def settings(folder: Path, **changed: Any) -> RunSettings:
    """A run of detection on the random model."""
    values = {"max_len": MAX_LEN, "sampling": SAMPLING, "deadline_s": 60.0}
    return called_engines.settings(folder, **{**values, **changed})


def dispatched(engine: Any, row: PromptRow, calls: int | None = None) -> Any:
    """The samples of a row, as OpenRLHF's generator asks an engine for them."""
    temperature = 0.6 if row.split == EVAL else 1.0
    params = SamplingParams(
        temperature=temperature, top_p=1.0, top_k=-1, max_tokens=40, min_tokens=1, skip_special_tokens=False, logprobs=1
    )
    return engine.generate_responses.remote(
        prompt=to_json(row),
        label="",
        sampling_params=params,
        max_length=row.run.max_len,
        hf_tokenizer=tiny_world.tokenizer(),
        num_samples=row.samples if calls is None else calls,
    )


def coordinators() -> list[str]:
    """The names of the coordinators that live, of all jobs."""
    named = ray.util.list_named_actors(all_namespaces=True)
    return sorted(actor["name"] for actor in named if actor["namespace"] == NAMESPACE)


def coordinator() -> str:
    """The name of this job's."""
    return f"coordinator-{ray.get_runtime_context().get_job_id()}"


def second_job(address: str, model: str, folder: str) -> None:
    """Plays an iteration on an engine of its own, and prints which coordinators there are."""
    ray.init(address)
    (engine,) = engines(1, model)
    run = settings(Path(folder))
    ray.get([dispatched(engine, row) for row in called_engines.prompt_rows(run, 2)], timeout=120)
    print("coordinators:", coordinator(), *coordinators())


def main(arguments: Sequence[str]) -> None:
    """``second_job`` from the command line."""
    second_job(*arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
