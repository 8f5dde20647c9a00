"""Settings and flags under which the count of games wouldn't close, advantages would change, or OpenRLHF would fail later.

What OpenRLHF does with the numbers was read in openrlhf 0.11.2 (``trainer/ray/launcher.py``, ``trainer/ppo_trainer.py``,
``datasets/utils.py``). Its argparse takes abbreviations, so a flag that isn't written out is refused where it could mean one
of the flags here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainers.cluster.preparation import check_settings, check_temperature
from trainers.config import Config
from trainers.openrlhf.launch import (
    EXACTLY,
    HANDED_ON,
    OF_THE_REFERENCE,
    REFUSED,
    REFUSED_SETTINGS,
    TOLD,
    UNLESS_SAID,
    Passed,
    handed_on,
)
from trainers.settings import settings_of

OURS = ("game.", "opponents.", "ray.", "rollout.performing.", "rollout.detection.")  # OpenRLHF has no such groups
KNOWN = {*TOLD, *UNLESS_SAID, *REFUSED, *EXACTLY, *OF_THE_REFERENCE, *(name for name, _ in settings_of(Config()))}


def check_config(config: Config) -> None:
    """Refuse settings that OpenRLHF can't follow, or that don't go together there.

    Raises:
        ValueError: with a flag, its value, and the way out.
    """
    check_settings(config, REFUSED_SETTINGS, (*HANDED_ON, "logger"))
    if config.ds.param_dtype == "fp32":
        raise ValueError("--ds.param_dtype is 'fp32'; OpenRLHF trains in bf16 or fp16")
    if config.eval.temperature is not None:
        check_temperature("--eval.temperature", config.eval.temperature)
    if config.ckpt.max_num < 2:
        raise ValueError(
            f"--ckpt.max_num is {config.ckpt.max_num}; it must be at least 2, since OpenRLHF removes the oldest checkpoint "
            "before it writes the next"
        )
    _check_episodes(config)
    _check_evaluations(config)
    _check_ranks(config)
    _check_engines(config)


def rows_per_episode(config: Config) -> int:
    """Return the number of training rows, which are played once per episode."""
    return config.train.iterations * config.rollout.batch_size // config.train.num_episodes


def _check_episodes(config: Config) -> None:
    """Every pass over the prompts is whole batches: a batch that OpenRLHF cuts short would end no iteration."""
    iterations, episodes = config.train.iterations, config.train.num_episodes
    if iterations % episodes:
        raise ValueError(
            f"--train.iterations is {iterations}, no multiple of --train.num_episodes {episodes}: every episode plays the same "
            "rows in whole batches"
        )


def _check_evaluations(config: Config) -> None:
    iterations, steps = config.train.iterations, config.eval.steps or config.train.iterations
    if steps > iterations:
        raise ValueError(
            f"--eval.steps is {steps}, more than --train.iterations {iterations}: held-out games would never be played; leave "
            "it out to play them after the last"
        )
    latest = iterations - 2  # with OpenRLHF's queue of one, its generator knows of no later weights
    if config.train.async_enable and config.eval.games and steps > latest:
        raise ValueError(
            "--train.async_enable evaluates between iterations that are generated, never the last weights; give --eval.steps "
            f"of at most {latest}, or leave --eval.games out"
        )


def _check_ranks(config: Config) -> None:
    """Every process gets as many samples, in whole micro-batches and whole updates; OpenRLHF drops or waits for others."""
    actor, ds, rollout = config.actor, config.ds, config.rollout
    gpus, shared = actor.num_nodes * actor.num_gpus_per_node, ds.ring_attn_size * ds.tensor_parallel_size
    if gpus % shared:
        raise ValueError(
            f"--actor.num_nodes x --actor.num_gpus_per_node is {gpus}, no multiple of --ds.ring_attn_size x "
            f"--ds.tensor_parallel_size = {shared}"
        )
    samples, ranks = config.samples_per_iteration, gpus // shared
    product = (
        f"--rollout.batch_size {rollout.batch_size} x --rollout.n_samples_per_prompt {rollout.n_samples_per_prompt}"
    )
    if samples % ranks:
        raise ValueError(
            f"{product} = {samples} samples per iteration, no multiple of the {ranks} processes that train "
            f"(--actor.num_gpus_per_node {actor.num_gpus_per_node}); change one of them"
        )
    values = handed_on(config)
    update = values["train.batch_size"]
    if samples % update:
        raise ValueError(
            f"--train.batch_size is {update} samples per update, and {product} = {samples} is no multiple of it; leave it out "
            "for one update per iteration"
        )
    for flag, whole, whole_name in (
        ("train.micro_batch_size", update, "an update"),
        ("rollout.micro_batch_size", samples, "an iteration"),
    ):
        if whole % (ranks * values[flag]):
            raise ValueError(
                f"--{flag} is {values[flag]}, and each of {ranks} processes gets {whole / ranks:g} of the {whole} samples of "
                f"{whole_name}: no whole number of micro-batches; OpenRLHF would leave some out"
            )


def _check_engines(config: Config) -> None:
    gpus, per_engine = config.actor.num_nodes * config.actor.num_gpus_per_node, config.vllm.tensor_parallel_size
    engines = config.vllm.num_engines or gpus // per_engine
    if config.train.colocate_all and not config.train.async_enable and engines * per_engine != gpus:
        raise ValueError(
            f"--train.colocate_all puts engines on all {gpus} GPUs of the actor, and {engines} engines x "
            f"--vllm.tensor_parallel_size {per_engine} don't fill them; leave --vllm.num_engines out, and take a tensor "
            "parallel size that divides the GPUs"
        )


def check_passed(passed: Iterable[Passed]) -> None:
    """Refuse flags that break a run of ours.

    Raises:
        ValueError: with the flag, why, and what to change.
    """
    for flag, values in passed:
        written = " ".join([f"--{flag}", *values])
        if flag in TOLD:
            fixed, why = TOLD[flag]
            if not _same(values, fixed):
                raise ValueError(
                    f"{written}: OpenRLHF always gets --{' '.join([flag, *fixed])}, since {why}; leave it out"
                )
        elif flag in EXACTLY:
            number, why = EXACTLY[flag]
            if not _same(values, (str(number),)):
                raise ValueError(f"{written}: it must be {number:g}, since {why}; leave it out")
        elif flag in REFUSED:
            raise ValueError(f"{written} can't be used: {REFUSED[flag]}; leave it out")
        elif flag not in KNOWN:
            if meant := sorted(name for name in KNOWN if name.startswith(flag)):
                raise ValueError(f"--{flag} could be short for --{' or --'.join(meant)}; write flags out")
            if flag.startswith(OURS):
                raise ValueError(f"no flag --{flag}; spyrl openrlhf --help names them")


def check_beside(passed: Iterable[Passed], config: Config) -> None:
    """Refuse flags that don't go with the settings.

    Raises:
        ValueError: with the flags, and what to change.
    """
    flags = dict(passed)
    if not config.train.colocate_all:
        return
    if config.train.async_enable and "vllm.enable_sleep" in flags:
        raise ValueError(
            "--train.async_enable can't be used with --vllm.enable_sleep: engines generate while the model is trained, on GPUs "
            "of their own; leave --vllm.enable_sleep out"
        )
    of_the_actor = (config.actor.num_nodes, config.actor.num_gpus_per_node)
    for flag, number in zip(OF_THE_REFERENCE, of_the_actor, strict=True):
        if config.algo.kl.init_coef > 0 and flag in flags and not _same(flags[flag], (str(number),)):
            raise ValueError(
                f"--train.colocate_all puts the reference on the actor's GPUs; leave --{flag} {' '.join(flags[flag])} out"
            )


def _same(values: Sequence[str], fixed: Sequence[str]) -> bool:
    """Return whether two lists of values are the same, as texts or as numbers."""
    return len(values) == len(fixed) and all(map(_equal, values, fixed))


def _equal(value: str, fixed: str) -> bool:
    try:
        return value == fixed or float(value) == float(fixed)
    except ValueError:
        return False
