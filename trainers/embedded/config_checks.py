"""What a config may not say, found before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainers.embedded.lineup import check_fixed, check_opponents
from trainers.game_config import check_room, check_seats
from trainers.settings import check_least, value_at
from trainers.shared_flags import LOWEST_IN_VLLM, check_memory_share

if TYPE_CHECKING:
    from trainers.embedded.config import Config

AT_LEAST = {  # where a value is given
    1: (
        *(
            "train.iterations",
            "train.batch_size",
            "train.micro_batch_size",
            "train.max_tokens_per_gpu",
            "train.max_epochs",
        ),
        *(
            "rollout.batch_size",
            "rollout.n_samples_per_prompt",
            "rollout.micro_batch_size",
            "rollout.max_tokens_per_gpu",
        ),
        *("rollout.max_new_tokens", "rollout.performing.max_new_tokens", "rollout.detection.max_new_tokens"),
        *("data.max_samples", "eval.steps", "ckpt.save_steps", "ckpt.max_num", "ckpt.games_max_num", "opponents.pool"),
    ),
    0: ("train.max_minutes", "eval.games", "ds.lora.rank", "algo.kl.init_coef"),
}
ONE_OF = {
    "actor.shared_prompts": ("auto", "cascade", "mask", "off"),
    "rollout.engine": ("transformers", "vllm"),
    "ds.param_dtype": ("auto", "bf16", "fp32"),
}


def check_values(config: Config) -> None:
    """Refuse single values.

    Raises:
        ValueError: with the flag, its value, and the way out.
    """
    check_least(config, AT_LEAST)
    for flag, known in ONE_OF.items():
        if (value := value_at(config, flag)) not in known:
            raise ValueError(f"--{flag} is {value!r}; choose one of {list(known)}")


def check_together(config: Config) -> None:
    """Refuse values that don't go together.

    Raises:
        ValueError: with a flag, its value, and the way out.
    """
    check_seats(config.rollout.n_samples_per_prompt, config.game.players)
    check_room(config.data.max_len, config.game.players, config.sampling)
    _check_engine(config)
    if config.eval.steps and not config.eval.games:
        raise ValueError(f"--eval.steps is {config.eval.steps}, and no games are held out; give --eval.games")
    if config.opponent_of:
        check_opponents(config.opponent_of, config.game.voters, config.game.schedule)
    if config.eval.opponent:
        check_fixed(config.eval.opponent, config.eval.games)


def _check_engine(config: Config) -> None:
    temperature = config.rollout.temperature
    if config.rollout.engine == "vllm" and temperature < LOWEST_IN_VLLM:
        raise ValueError(f"--rollout.temperature is {temperature}; vLLM samples at {LOWEST_IN_VLLM} where it is lower")
    check_memory_share(config.vllm.gpu_memory_utilization)
