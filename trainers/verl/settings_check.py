"""verl runs with what the rows were prepared for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainers.cluster.prompt_rows import RunSettings

FIXED = {  # what counts on every row of an iteration, and hands advantages on as they are
    "trainer.use_v1": True,
    "trainer.v1.trainer_mode": "sync",
    "trainer.v1.sampler.sync_refill_failed_groups": False,
    "algorithm.adv_estimator": "spyrl",
    "algorithm.use_kl_in_reward": False,
    "algorithm.filter_groups.enable": False,
    "actor_rollout_ref.rollout.top_p": 1.0,
    "actor_rollout_ref.rollout.top_k": -1,
    "actor_rollout_ref.rollout.full_determinism": False,  # one seed for all: seats with the same prompt would say the same
}


def check_settings(config: Any, run: RunSettings, params: Mapping[str, Any] | None) -> None:
    """``config`` is verl's; ``params`` is how a training sample is generated, None for an evaluation.

    Raises:
        ValueError: a setting isn't the rows'.
    """
    lengths = {sampling.max_new_tokens for sampling in run.sampling.values()}
    wanted = FIXED | {
        "actor_rollout_ref.rollout.n": run.samples,
        "actor_rollout_ref.rollout.max_model_len": run.max_len,
        "data.train_batch_size": run.batch_size,
        "data.max_response_length": max(lengths),
    }
    if run.eval_rows:
        wanted["actor_rollout_ref.rollout.val_kwargs.n"] = run.eval_samples
    found = {name: _at(config, name) for name in wanted}
    if params is not None:
        found["actor_rollout_ref.rollout.temperature"] = params["temperature"]
        wanted["actor_rollout_ref.rollout.temperature"] = next(iter(run.sampling.values())).temperature
    for name, value in wanted.items():
        if found[name] != value:
            raise ValueError(
                f"verl runs with {name}={found[name]}, and the rows were prepared for {value}; start it with the command that "
                "spyrl verl prints"
            )


def _at(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = config[part]
    return config
