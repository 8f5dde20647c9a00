"""verl's own command for a prepared run, and every setting on which the count of games or the advantages depend."""

from __future__ import annotations

import re
from pathlib import Path

from trainers.verl.config import Config
from trainers.verl.settings_check import FIXED

PLAIN = re.compile(r"[\w./:@+-]")  # what a value of Hydra's may hold without quotes
AGENT_LOOP = Path(__file__).with_name("agent_loop.yaml")


def command(config: Config, folder: Path) -> list[str]:
    """The whole command; what is said after it, in verl's own words, goes before what it says.

    Raises:
        ValueError: verl's command line can't read a name.
    """
    for name in (str(folder), config.actor.model_name_or_path, str(AGENT_LOOP)):
        if found := sorted(set(PLAIN.sub("", name))):
            raise ValueError(
                f"{name!r} has {' '.join(found)}, which verl's command line can't read; choose another name"
            )
    return [
        "python",
        "-m",
        "verl.trainer.main_ppo",
        *(f"{name}={value}" for name, value in overrides(config, folder).items()),
    ]


def overrides(config: Config, folder: Path) -> dict[str, object]:
    """verl's settings by their dotted names."""
    actor, rollout, data = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", config.data
    lengths = [sampling.max_new_tokens for sampling in config.sampling.values()]
    rows = folder / "rows"
    return FIXED | {
        "data.train_files": rows / "train.jsonl",
        "data.val_files": rows / ("eval.jsonl" if config.eval.games else "train.jsonl"),
        "data.train_batch_size": config.rollout.batch_size,
        "data.shuffle": False,
        "data.filter_overlong_prompts": False,  # a row isn't a prompt
        "data.max_prompt_length": data.max_len - min(lengths),
        "data.max_response_length": max(lengths),
        "actor_rollout_ref.model.path": config.actor.model_name_or_path,
        f"{actor}.ppo_mini_batch_size": config.rollout.batch_size,  # one update an iteration
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": max(16_384, data.max_len),
        f"{actor}.optim.lr": config.actor.adam.lr,
        f"{actor}.optim.betas": f"[{','.join(map(str, config.actor.adam.betas))}]",
        f"{actor}.optim.weight_decay": config.actor.adam.weight_decay,
        f"{actor}.optim.override_optimizer_config": f"{{eps:{config.actor.adam.eps}}}",
        f"{actor}.clip_ratio": config.actor.eps_clip,
        f"{actor}.clip_ratio_low": config.actor.eps_clip,
        f"{actor}.clip_ratio_high": config.actor.eps_clip,
        f"{actor}.loss_agg_mode": "token-mean",
        f"{actor}.use_kl_loss": config.algo.kl.init_coef > 0,
        f"{actor}.kl_loss_coef": config.algo.kl.init_coef,
        f"{actor}.kl_loss_type": "low_var_kl",
        f"{rollout}.name": "vllm",
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.n": config.rollout.n_samples_per_prompt,
        f"{rollout}.temperature": config.rollout.temperature,
        f"{rollout}.max_model_len": data.max_len,
        f"{rollout}.val_kwargs.n": config.game.players,
        f"{rollout}.val_kwargs.temperature": config.rollout.temperature,
        f"{rollout}.val_kwargs.do_sample": True,
        f"{rollout}.agent.default_agent_loop": "spyrl",
        f"{rollout}.agent.agent_loop_config_path": AGENT_LOOP,
        "trainer.nnodes": config.actor.num_nodes,
        "trainer.n_gpus_per_node": config.actor.num_gpus_per_node,
        "trainer.total_epochs": 1,
        "trainer.total_training_steps": config.train.iterations,
        "trainer.save_freq": config.ckpt.save_steps,
        "trainer.test_freq": config.eval.steps if config.eval.games else -1,
        "trainer.val_before_train": bool(config.eval.games) and not config.ckpt.load_enable,
        "trainer.resume_mode": "auto" if config.ckpt.load_enable else "disable",
        "trainer.default_local_dir": folder / "checkpoints",
        "trainer.logger": '["console"]',
    }
