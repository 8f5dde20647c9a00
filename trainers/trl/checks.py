"""TRL's version and its settings that games can't be trained with, and why. Nothing here imports TRL."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from trainers.config import check_budget
from trainers.trl.games import Games

TESTED = "1.16"  # the trainer overrides private methods, which change between versions
BY_TOKENS = ("dapo", "cispo", "vespo")  # losses that divide by the batch's tokens, so that a blank row weighs nothing
SAMPLED = "what is trained must be what was sampled"
SHARDED = (
    "it cuts the model up, and games are played with the whole of it in each process; use plain data parallelism "
    "(torchrun), or spyrl openrlhf for models that need more than one GPU"
)
OFF: tuple[Any, ...] = (None, "", [], {}, False)
AS_THEY_ARE: dict[str, tuple[tuple[Any, ...], str]] = {  # the values that settings of GRPOConfig may have, and why
    "num_iterations": (
        (1,),
        "games are trained on once, so that the curriculum's steps are TRL's and a checkpoint never falls into a batch of games",
    ),
    "auto_find_batch_size": (
        OFF[-1:],
        "when memory runs out it begins again with smaller batches, in the middle of a batch of games; give a smaller "
        "per_device_train_batch_size",
    ),
    "eval_strategy": (("no",), "TRL has no held-out games; play them with spyrl play"),
    "top_p": ((1.0,), SAMPLED),
    "top_k": ((0, None), SAMPLED),
    "min_p": ((None, 0.0), SAMPLED),
    "repetition_penalty": ((1.0,), SAMPLED),
    "generation_kwargs": (OFF, SAMPLED),
    "mask_truncated_completions": ((False,), "it drops replies that the votes have paid for"),
    "use_vllm": (
        (False,),
        "TRL's vLLM samples all replies alike, and stages have their own lengths, prefills and stops",
    ),
    "use_transformers_continuous_batching": ((False,), "games have their own engine"),
    "reward_weights": ((None,), "a game's votes pay, by the prices of GameConfig"),
    "deepspeed": (OFF, SHARDED),
    "fsdp": (OFF, SHARDED),
}


def check_version() -> None:
    """Check that the tested version of TRL is installed.

    Raises:
        ValueError: it is another, or none.
    """
    way_out = (
        f"in an environment of its own: pip install -e '.[trl]' (in the checkout) or pip install 'trl=={TESTED}.*'"
    )
    try:
        installed = version("trl")
    except PackageNotFoundError:
        raise ValueError(f"trl is not installed; {way_out}") from None
    if installed.split(".")[:2] != TESTED.split("."):
        raise ValueError(f"trl is {installed}, and only {TESTED} was tested; {way_out}")


def check_args(args: Any, games: Games) -> None:
    """Check that a batch of games is one step of TRL and one of the curriculum, and that its rows are as they were sampled.

    Raises:
        ValueError: a setting of ``GRPOConfig`` breaks that; which, and why.
    """
    for name, (values, why) in AS_THEY_ARE.items():
        if (value := getattr(args, name)) not in values:
            raise ValueError(f"{name} is {value!r}: {why}; leave it {values[0]!r}")
    for refused, message in _misfits(args, games):
        if refused:
            raise ValueError(message)
    check_budget(games.data.max_len, games.game.players, games.sampling(args))


def _misfits(args: Any, games: Games) -> list[tuple[bool, str]]:
    """Return whether numbers don't go together, and why."""
    rows, parts, local = (
        games.rows_per_game,
        args.gradient_accumulation_steps,
        args.generation_batch_size // args.world_size,
    )
    by_stage = ", ".join(f"{stage} {count}" for stage, count in games.rows_by_stage.items())
    uneven = any(local // rows * count % parts for count in games.rows_by_stage.values())
    return [
        (
            args.num_generations % rows > 0,
            f"num_generations is {args.num_generations}, no multiple of {rows}: it is the samples of a document, and a game "
            f"takes {rows} rows (trained replies: {by_stage}); give {rows} for one game per document, {2 * rows} for two",
        ),
        (
            local % rows > 0,
            f"generation_batch_size is {args.generation_batch_size}, {local} rows per process, no multiple of {rows}: a "
            "game's rows stay in one process; change per_device_train_batch_size or gradient_accumulation_steps",
        ),
        (
            args.steps_per_generation != parts,
            f"steps_per_generation is {args.steps_per_generation} and gradient_accumulation_steps {parts}: a batch of games "
            "is one optimizer step, after which the curriculum moves; leave steps_per_generation out",
        ),
        (
            args.max_steps < 1,
            f"max_steps is {args.max_steps}: documents come again and again, so training ends only after max_steps; give some",
        ),
        (
            args.n_gpu > 1,
            f"{args.n_gpu} GPUs in one process: start one process for each (torchrun), or show one (CUDA_VISIBLE_DEVICES=0)",
        ),
        (
            uneven and args.loss_type not in BY_TOKENS,
            f"loss_type is {args.loss_type!r}, which weighs rows, blank ones too, and the trained replies of "
            f"{local // rows} games per process ({by_stage} each) can't be cut evenly for gradient_accumulation_steps "
            f"{parts}; take one of {list(BY_TOKENS)}, or other batch sizes",
        ),
    ]
