"""verl's own command for a prepared run, and the settings on which the count of games or the advantages depend. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainers.cluster.prompt_rows import RunSettings
from trainers.config import Config
from trainers.settings import settings_of, value_at

PLAIN = re.compile(r"[\w./:@+-]")  # the characters that a value of Hydra's may hold without quotes
AGENT_LOOP = Path(__file__).with_name("agent_loop.yaml")
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
HANDED_ON = {  # our settings, and verl's names of them
    "rollout.batch_size": ("data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size"),  # one update per iteration
    "rollout.n_samples_per_prompt": (f"{ROLLOUT}.n",),
    "rollout.temperature": (f"{ROLLOUT}.temperature", f"{ROLLOUT}.val_kwargs.temperature"),
    "data.max_len": (f"{ROLLOUT}.max_model_len",),
    "actor.adam.lr": (f"{ACTOR}.optim.lr",),
    "actor.adam.weight_decay": (f"{ACTOR}.optim.weight_decay",),
    "actor.loss_agg_mode": (f"{ACTOR}.loss_agg_mode",),
    "actor.max_norm": (f"{ACTOR}.optim.clip_grad",),
    "actor.eps_clip": tuple(f"{ACTOR}.{name}" for name in ("clip_ratio", "clip_ratio_low", "clip_ratio_high")),
    "actor.num_nodes": ("trainer.nnodes",),
    "actor.num_gpus_per_node": ("trainer.n_gpus_per_node",),
    "algo.kl.init_coef": (f"{ACTOR}.kl_loss_coef",),
    "train.iterations": ("trainer.total_training_steps",),
    "ckpt.save_steps": ("trainer.save_freq",),
}
IN_ANOTHER_FORM = ("actor.adam.betas", "actor.adam.eps", "eval.steps")  # settings that verl gets, too
IN_ITS_WORDS = "give verl's own setting behind the command that spyrl verl prints"
REFUSED_SETTINGS = {  # settings and groups that stay at their defaults here, and why
    "algo.warm_start": (
        "verl fits nothing before it trains; warm up with spyrl train and name its final/ with --actor.model_name_or_path"
    ),
    "algo.shuffle_advantages": (
        "it deals advantages out over a whole iteration, and each row's are made where it is played; run this control with "
        "spyrl train"
    ),
    **dict.fromkeys(("ds", "vllm", "logger", "train.max_tokens_per_gpu", "rollout.max_tokens_per_gpu"), IN_ITS_WORDS),
    **dict.fromkeys(("actor.gradient_checkpointing_enable", "ckpt.max_num"), IN_ITS_WORDS),
}
FIXED = {  # verl counts on every row of an iteration, and hands advantages on as they are
    "trainer.use_v1": True,
    "trainer.v1.trainer_mode": "sync",
    "trainer.v1.sampler.sync_refill_failed_groups": False,
    "algorithm.adv_estimator": "spyrl",
    "algorithm.use_kl_in_reward": False,
    "algorithm.filter_groups.enable": False,
    f"{ROLLOUT}.top_p": 1.0,
    f"{ROLLOUT}.top_k": -1,
    f"{ROLLOUT}.full_determinism": False,  # one seed for all: seats with the same prompt would say the same
}


def command(config: Config, folder: Path, model: str) -> list[str]:
    """Return the whole command; a user's settings behind it go before its own.

    Raises:
        ValueError: verl's command line can't read a name.
    """
    for name in (str(folder), model, str(AGENT_LOOP)):
        if characters := sorted(set(PLAIN.sub("", name))):
            raise ValueError(
                f"{name!r} has {' '.join(characters)}, which verl's command line can't read; choose another name"
            )
    settings = overrides(config, folder, model)
    return ["python", "-m", "verl.trainer.main_ppo", *(f"{name}={value}" for name, value in settings.items())]


def overrides(config: Config, folder: Path, model: str) -> dict[str, object]:
    """Return verl's settings by their dotted names."""
    values, adam, data = dict(settings_of(config)), config.actor.adam, config.data
    lengths = [sampling.max_new_tokens for sampling in config.sampling.values()]
    rows, games = folder / "rows", config.eval.games
    handed_on = {theirs: values[ours] for ours, names in HANDED_ON.items() for theirs in names}
    return {
        **FIXED,
        **handed_on,
        "data.train_files": rows / "train.jsonl",
        "data.val_files": rows / ("eval.jsonl" if games else "train.jsonl"),
        "data.shuffle": False,
        "data.filter_overlong_prompts": False,  # a row isn't a prompt
        "data.max_prompt_length": data.max_len - min(lengths),
        "data.max_response_length": max(lengths),
        "actor_rollout_ref.model.path": model,
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.ppo_max_token_len_per_gpu": max(16_384, data.max_len),
        f"{ACTOR}.optim.betas": f"[{','.join(map(str, adam.betas))}]",
        f"{ACTOR}.optim.override_optimizer_config": f"{{eps:{adam.eps}}}",
        f"{ACTOR}.use_kl_loss": config.algo.kl.init_coef > 0,
        f"{ACTOR}.kl_loss_type": "low_var_kl",
        f"{ROLLOUT}.name": "vllm",
        f"{ROLLOUT}.tensor_model_parallel_size": 1,
        f"{ROLLOUT}.val_kwargs.n": config.game.players,
        f"{ROLLOUT}.val_kwargs.do_sample": True,
        f"{ROLLOUT}.agent.default_agent_loop": "spyrl",
        f"{ROLLOUT}.agent.agent_loop_config_path": AGENT_LOOP,
        "trainer.total_epochs": 1,
        "trainer.test_freq": (config.eval.steps or config.train.iterations) if games else -1,
        "trainer.val_before_train": bool(games) and not config.ckpt.load_enable,
        "trainer.resume_mode": "auto" if config.ckpt.load_enable else "disable",
        "trainer.default_local_dir": folder / "checkpoints",
        "trainer.logger": '["console"]',
    }


def check_as_prepared(verl_config: Any, run: RunSettings, params: Mapping[str, Any] | None) -> None:
    """Check that verl runs with the settings that the rows were prepared for.

    ``params`` are those by which a training sample is generated, None for an evaluation.

    Raises:
        ValueError: a setting isn't the rows'.
    """
    prepared = FIXED | {
        f"{ROLLOUT}.n": run.samples,
        f"{ROLLOUT}.max_model_len": run.max_len,
        "data.train_batch_size": run.batch_size,
        "data.max_response_length": max(sampling.max_new_tokens for sampling in run.sampling.values()),
    }
    if run.eval_rows:
        prepared[f"{ROLLOUT}.val_kwargs.n"] = run.eval_samples
    values = {name: value_at(verl_config, name) for name in prepared}
    if params is not None:
        values[f"{ROLLOUT}.temperature"] = params["temperature"]
        prepared[f"{ROLLOUT}.temperature"] = next(iter(run.sampling.values())).temperature
    for name, value in prepared.items():
        if values[name] != value:
            raise ValueError(
                f"verl runs with {name}={values[name]}, and the rows were prepared for {value}; start it with the command that "
                "spyrl verl prints"
            )
