"""What is played, and which of TRL's settings can't be trained with. Read without TRL."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from spy_env.ranges import check_ranges, ranged
from trainers.config import Algo, Data, GameConfig, Kl, StageSampling, check_budget, sampling_by_stage
from trainers.engines import Sampling

TESTED = "1.16"  # the trainer overrides private methods, which change between versions
BY_TOKENS = ("dapo", "cispo", "vespo")  # losses that divide by the batch's tokens, so that a blank row weighs nothing


@dataclass(frozen=True)
class Games:
    """The game, the corpus, and how replies are generated; what TRL has a setting for is read from ``GRPOConfig``."""

    game: GameConfig = field(default_factory=GameConfig)
    algo: Algo = field(default_factory=Algo)  # its KL is GRPOConfig's beta
    data: Data = field(default_factory=Data)
    performing: StageSampling = field(default_factory=StageSampling)  # lengths default to max_completion_length
    detection: StageSampling = field(default_factory=StageSampling)
    micro_batch_size: int = ranged(32, least=1)  # replies generated at a time ...
    max_tokens_per_gpu: int = ranged(32768, least=1)  # ... and tokens of their prompts and replies (or one reply)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.algo.kl != Kl():
            raise ValueError(
                f"algo.kl.init_coef is {self.algo.kl.init_coef}; TRL's KL coefficient is GRPOConfig's beta"
            )

    @property
    def rows_by_stage(self) -> dict[str, int]:
        """How many replies of a game an iteration trains, by what it trains."""
        players = self.game.players
        voters = self.game.referees if self.game.voters == "referees" else players - 1
        by_stage = {"performing": players, "detection": voters}
        if self.algo.schedule in by_stage:
            return {self.algo.schedule: by_stage[self.algo.schedule]}
        return {"joint": players + voters} if self.algo.schedule == "joint" else by_stage

    @property
    def rows_a_game(self) -> int:
        """The rows that TRL keeps for a game: as many as the stage with the most trained replies fills."""
        return max(self.rows_by_stage.values())

    def sampling(self, args: Any) -> dict[Any, Sampling]:
        """Sampling by stage."""
        return sampling_by_stage(args.max_completion_length, args.temperature, self.performing, self.detection)

    def fixed(self, args: Any) -> dict[str, Any]:
        """The settings that a resumed run must keep: games, baselines and averages depend on them."""
        of_args = ("generation_batch_size", "num_generations", "max_completion_length", "temperature", "seed")
        rows = {name: getattr(args, name) for name in (*of_args, "chat_template_kwargs")}
        groups = {name: asdict(getattr(self, name)) for name in ("game", "algo", "data", "performing", "detection")}
        return rows | {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}

    def run_row(self, args: Any, model: str) -> dict[str, Any]:
        """What the run's folder says of it, by the names of ``spyrl train``; ``model`` is what it began with."""
        rollout = {
            "max_new_tokens": args.max_completion_length,
            "temperature": args.temperature,
            "performing": asdict(self.performing),
            "detection": asdict(self.detection),
            "chat_template_kwargs": json.dumps(args.chat_template_kwargs or {}),
        }
        groups = {"game": asdict(self.game), "algo": asdict(self.algo), "data": asdict(self.data), "rollout": rollout}
        return {"trainer": "trl", "config": {**groups, "actor": {"model_name_or_path": model}}}


def check_version() -> None:
    """Whether the TRL that is installed is the one that this was tested with.

    Raises:
        ValueError: it is another, or none.
    """
    way_out = f"in an environment of its own: pip install 'spy-env[trl]' or pip install 'trl=={TESTED}.*'"
    try:
        found = version("trl")
    except PackageNotFoundError:
        raise ValueError(f"trl is not installed; {way_out}") from None
    if found.split(".")[:2] != TESTED.split("."):
        raise ValueError(f"trl is {found}, and only {TESTED} was tested; {way_out}")


def check_args(args: Any, games: Games) -> None:
    """Whether a batch of games is one step of TRL and one of the curriculum, and its rows are what was sampled.

    Raises:
        ValueError: a setting of ``GRPOConfig`` breaks that; which, and why.
    """
    for refused, said in [*_one_step_a_batch(args, games), *_as_sampled(args), *_one_whole_model(args)]:
        if refused:
            raise ValueError(said)
    _check_even_rows(args, games)
    check_budget(games.data.max_len, games.game.players, games.sampling(args))


def _one_step_a_batch(args: Any, games: Games) -> list[tuple[bool, str]]:
    rows, local = games.rows_a_game, args.generation_batch_size // args.world_size
    by_stage = ", ".join(f"{stage} {count}" for stage, count in games.rows_by_stage.items())
    return [
        (
            args.num_generations % rows > 0,
            f"num_generations is {args.num_generations}, no multiple of {rows}: it is the samples of a document, and a game "
            f"takes {rows} rows (trained replies: {by_stage}); give {rows} for one game a document, {2 * rows} for two",
        ),
        (
            local % rows > 0,
            f"generation_batch_size is {args.generation_batch_size}, {local} rows a process, no multiple of {rows}: a game's "
            "rows stay in one process; change per_device_train_batch_size or gradient_accumulation_steps",
        ),
        (
            args.steps_per_generation != args.gradient_accumulation_steps,
            f"steps_per_generation is {args.steps_per_generation} and gradient_accumulation_steps "
            f"{args.gradient_accumulation_steps}: a batch of games is one optimizer step, after which the curriculum moves; "
            "leave steps_per_generation out",
        ),
        (
            args.num_iterations != 1,
            f"num_iterations is {args.num_iterations}: games are trained on once, so that the curriculum's steps are TRL's "
            "and a checkpoint never falls into a batch of games; leave it 1",
        ),
        (
            args.auto_find_batch_size,
            "auto_find_batch_size begins again with smaller batches when memory runs out, in the middle of a batch of games; "
            "leave it False and give a smaller per_device_train_batch_size",
        ),
        (
            args.max_steps < 1,
            f"max_steps is {args.max_steps}: documents come again and again, so it says when training ends",
        ),
        (
            str(getattr(args.eval_strategy, "value", args.eval_strategy)) != "no",
            f"eval_strategy is {args.eval_strategy}: TRL has no held-out games; play them with spyrl play, or leave it 'no'",
        ),
    ]


def _as_sampled(args: Any) -> list[tuple[bool, str]]:
    """What would bend the distribution that is sampled from, or leave replies out."""
    plain: dict[str, tuple[Any, ...]] = {
        "top_p": (1.0,),
        "top_k": (0, None),
        "min_p": (None, 0.0),
        "repetition_penalty": (1.0,),
        "generation_kwargs": (None, {}),
    }
    return [
        *(
            (
                getattr(args, name) not in allowed,
                f"{name} is {getattr(args, name)}: what is trained must be what was sampled; leave it {allowed[0]}",
            )
            for name, allowed in plain.items()
        ),
        (
            args.mask_truncated_completions,
            "mask_truncated_completions drops replies that the votes have paid for; leave it False",
        ),
        (
            args.use_vllm,
            "use_vllm: TRL's vLLM samples all replies alike, and stages have their own lengths, prefills and stops; leave it "
            "False",
        ),
        (
            args.use_transformers_continuous_batching,
            "use_transformers_continuous_batching: games have their own engine",
        ),
        (args.reward_weights is not None, "reward_weights: a game's votes pay, by --game.* prices; leave it None"),
    ]


def _one_whole_model(args: Any) -> list[tuple[bool, str]]:
    return [
        (
            bool(args.deepspeed) or bool(args.fsdp),
            "deepspeed and fsdp cut the model up, and games are played with the whole of it in each process; use plain "
            "data parallelism (torchrun), or spyrl openrlhf for models that need more than one GPU",
        ),
        (
            args.n_gpu > 1,
            f"{args.n_gpu} GPUs in one process: start one process for each (torchrun), or show one (CUDA_VISIBLE_DEVICES=0)",
        ),
    ]


def _check_even_rows(args: Any, games: Games) -> None:
    """A loss that weighs rows would weigh the blank ones with which uneven micro-batches are filled."""
    a_process = args.generation_batch_size // args.world_size // games.rows_a_game
    for stage, rows in games.rows_by_stage.items():
        trained = a_process * rows
        if args.loss_type not in BY_TOKENS and trained % args.steps_per_generation:
            raise ValueError(
                f"loss_type is {args.loss_type!r}, which weighs rows, and the {trained} trained replies of stage {stage} "
                f"can't be cut evenly for gradient_accumulation_steps {args.gradient_accumulation_steps}; "
                f"take one of {list(BY_TOKENS)}, or other batch sizes"
            )
