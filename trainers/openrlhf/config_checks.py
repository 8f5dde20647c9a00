"""What a config for OpenRLHF may not say: the count of games wouldn't close, or its trainer would fail later.

What OpenRLHF does with the numbers was read in openrlhf 0.11.2 (``trainer/ray/launcher.py``, ``trainer/ppo_trainer.py``,
``datasets/utils.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainers.config import LOWEST_IN_VLLM, check_memory_share, check_room, check_seats
from trainers.settings import check_least

if TYPE_CHECKING:
    from trainers.openrlhf.config import Config

AT_LEAST = {  # where a value is given
    1: (
        *("actor.num_nodes", "actor.num_gpus_per_node", "ref.num_nodes", "ref.num_gpus_per_node"),
        *("rollout.batch_size", "rollout.n_samples_per_prompt", "rollout.max_new_tokens", "rollout.micro_batch_size"),
        *("rollout.performing.max_new_tokens", "rollout.detection.max_new_tokens", "rollout.deadline_s"),
        *("train.iterations", "train.num_episodes", "train.batch_size", "train.micro_batch_size", "train.max_epochs"),
        *("vllm.num_engines", "vllm.tensor_parallel_size", "ds.ring_attn_size", "ds.tensor_parallel_size"),
        *("data.max_samples", "eval.steps", "eval.n_samples_per_prompt", "ckpt.save_steps"),
    ),
    2: ("ckpt.max_num",),  # OpenRLHF removes the oldest checkpoint before it writes the next
    0: ("eval.games", "algo.kl.init_coef"),
}


def check_values(config: Config) -> None:
    """Refuse single values.

    Raises:
        ValueError: with the flag, its value, and the way out.
    """
    check_least(config, AT_LEAST)
    game = config.game
    if game.schedule == "joint":
        raise ValueError(
            "--game.schedule is 'joint', and OpenRLHF takes one sample a call, not a performance and a vote; train both "
            "stages at once with spyrl train, or choose another schedule"
        )
    if game.shuffle_advantages:
        raise ValueError(
            "--game.shuffle_advantages deals advantages out over a whole iteration, and OpenRLHF subtracts the mean of each "
            "document's samples, which is then no longer 0; run this control with spyrl train"
        )
    for flag, temperature in (
        ("--rollout.temperature", config.rollout.temperature),
        ("--eval.temperature", config.eval.temperature),
    ):
        if temperature is not None and temperature < LOWEST_IN_VLLM:
            raise ValueError(
                f"{flag} is {temperature}; give a positive one: vLLM samples at {LOWEST_IN_VLLM} or higher"
            )
    if config.ray.address is not None and not config.ray.address.startswith(("http://", "https://")):
        raise ValueError(
            f"--ray.address is {config.ray.address!r}; give the address of the dashboard, such as http://HEAD:8265"
        )


def check_together(config: Config) -> None:
    """Refuse values that don't go together.

    Raises:
        ValueError: with a flag, its value, and the way out.
    """
    check_seats(config.rollout.n_samples_per_prompt, config.game.players)
    check_room(config.data.max_len, config.game.players, config.sampling)
    _check_rows(config)
    _check_ranks(config)
    _check_engines(config)
    if config.eval.steps and not config.eval.games:
        raise ValueError(f"--eval.steps is {config.eval.steps}, and no games are held out; give --eval.games")
    if config.eval.steps and config.eval.steps > config.train.iterations:
        raise ValueError(
            f"--eval.steps is {config.eval.steps}, more than --train.iterations {config.train.iterations}: held-out games would "
            "never be played; leave it out to play them after the last"
        )
    latest = config.train.iterations - 2  # with OpenRLHF's queue of one, its generator knows of no later weights
    if config.train.async_enable and config.eval.games and (config.eval.steps or config.train.iterations) > latest:
        raise ValueError(
            "--train.async_enable evaluates between iterations that are generated, never the last weights; give --eval.steps "
            f"of at most {latest}, or leave --eval.games out"
        )


def _check_rows(config: Config) -> None:
    """Every pass over the prompts is whole batches: a batch that OpenRLHF cuts short would end no iteration."""
    iterations, episodes = config.train.iterations, config.train.num_episodes
    if iterations % episodes:
        raise ValueError(
            f"--train.iterations is {iterations}, no multiple of --train.num_episodes {episodes}: every episode plays the same "
            "rows in whole batches"
        )


def _check_ranks(config: Config) -> None:
    """Every process gets as many samples, in whole micro-batches and whole updates; OpenRLHF drops or waits for others."""
    actor, ds = config.actor, config.ds
    gpus, shared = actor.num_nodes * actor.num_gpus_per_node, ds.ring_attn_size * ds.tensor_parallel_size
    if gpus % shared:
        raise ValueError(
            f"--actor.num_nodes x --actor.num_gpus_per_node is {gpus}, no multiple of --ds.ring_attn_size x "
            f"--ds.tensor_parallel_size = {shared}"
        )
    samples, ranks = config.samples_per_iteration, config.ranks
    product = f"--rollout.batch_size {config.rollout.batch_size} x --rollout.n_samples_per_prompt {config.rollout.n_samples_per_prompt}"
    if samples % ranks:
        raise ValueError(
            f"{product} = {samples} samples an iteration, no multiple of the {ranks} processes that train "
            f"(--actor.num_gpus_per_node {actor.num_gpus_per_node}); change one of them"
        )
    update = config.train.batch_size or samples
    if samples % update:
        raise ValueError(
            f"--train.batch_size is {update} samples an update, and {product} = {samples} is no multiple of it; leave it out "
            "for one update an iteration"
        )
    train = config.train.micro_batch_size or 1
    for flag, micro, of, what in (
        ("--train.micro_batch_size", train, update, "an update"),
        ("--rollout.micro_batch_size", config.rollout.micro_batch_size or train, samples, "an iteration"),
    ):
        if of % (ranks * micro):
            raise ValueError(
                f"{flag} is {micro}, and each of {ranks} processes gets {of / ranks:g} of the {of} samples of {what}: no whole "
                "number of micro-batches; OpenRLHF would leave some out"
            )


def _check_engines(config: Config) -> None:
    actor, vllm, train = config.actor, config.vllm, config.train
    if vllm.gpu_memory_utilization is not None:
        check_memory_share(vllm.gpu_memory_utilization)
    if not train.colocate_all:
        return
    gpus = actor.num_nodes * actor.num_gpus_per_node
    engines = vllm.num_engines or gpus // vllm.tensor_parallel_size
    if engines * vllm.tensor_parallel_size != gpus and not train.async_enable:
        raise ValueError(
            f"--train.colocate_all puts engines on all {gpus} GPUs of the actor, and {engines} engines x "
            f"--vllm.tensor_parallel_size {vllm.tensor_parallel_size} don't fill them; leave --vllm.num_engines out, and take a "
            "tensor parallel size that divides the GPUs"
        )
    ref = (config.ref.num_nodes or actor.num_nodes, config.ref.num_gpus_per_node or actor.num_gpus_per_node)
    if config.algo.kl.init_coef > 0 and ref != (actor.num_nodes, actor.num_gpus_per_node):
        raise ValueError(
            f"--train.colocate_all puts the reference on the actor's GPUs; leave --ref.num_nodes and "
            f"--ref.num_gpus_per_node {ref[1]} out"
        )
