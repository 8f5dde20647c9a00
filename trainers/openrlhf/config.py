"""What ``spyrl openrlhf`` reads: our flags, and those of OpenRLHF's on which the count of games or the settings depend.

Names, meanings and defaults are those of ``spyrl train`` where it has them, so that its config files are read here, too.
None stands for a value that follows from others (see ``filled_in``). All other flags go to OpenRLHF as they stand.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from typing import Any

from spy_env import Stage
from trainers.config import (
    Adam,
    Algo,
    Data,
    GameConfig,
    StageSampling,
    reward_rules_of,
    rules_of,
    sampling_by_stage,
    schedule_of,
    template_options,
)
from trainers.engines import Sampling
from trainers.openrlhf.config_checks import check_together, check_values


@dataclass(frozen=True)
class Actor:
    """The model that is trained, and its GPUs."""

    model_name_or_path: str = "smollm2-135m"  # a folder that every node sees, a hub id, or "smollm2-135m"
    num_nodes: int = 1
    num_gpus_per_node: int = 8
    adam: Adam = field(default_factory=Adam)
    max_norm: float = 1.0  # gradients are clipped to this norm
    eps_clip: float = 0.2
    loss_agg_mode: str = "token-mean"  # or "seq-mean-token-mean"
    gradient_checkpointing_enable: bool = False


@dataclass(frozen=True)
class Ref:
    """The reference model's GPUs."""

    num_nodes: int | None = None  # default: the actor's
    num_gpus_per_node: int | None = None  # default: the actor's


@dataclass(frozen=True)
class Rollout:
    """How games are generated."""

    batch_size: int = 8  # documents an iteration
    n_samples_per_prompt: int = 5  # samples a document; games = batch_size x this / players
    max_new_tokens: int = 512
    temperature: float = 1.0  # the trainer divides its logits by the same; nothing else bends the distribution
    micro_batch_size: int | None = None  # samples whose log-probabilities are computed at a time; default: train's
    max_tokens_per_gpu: int | None = None  # or their tokens, with --train.dynamic_batch_enable
    performing: StageSampling = field(default_factory=StageSampling)
    detection: StageSampling = field(default_factory=StageSampling)
    chat_template_kwargs: str = "{}"  # JSON for the chat template, such as {"enable_thinking": false}
    deadline_s: float = 1800.0  # seconds that one reply may take, waiting for its turn in the engine included


@dataclass(frozen=True)
class Vllm:
    """The engines that generate."""

    num_engines: int | None = None  # default: with --train.colocate_all as many as fill the actor's GPUs, else one
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float | None = None  # default: OpenRLHF's
    enforce_eager: bool = False


@dataclass(frozen=True)
class Train:
    """How the model is updated."""

    iterations: int = 100  # OpenRLHF's global steps, over all episodes
    num_episodes: int = 1  # passes over the prompt data set; each pass deals new games
    batch_size: int | None = None  # samples an optimizer step; default all of an iteration: one update
    micro_batch_size: int | None = None  # samples computed at a time on a GPU; default: 1
    max_tokens_per_gpu: int | None = None  # or their tokens, with --train.dynamic_batch_enable
    max_epochs: int = 1  # passes over an iteration's samples
    seed: int = 42
    colocate_all: bool = False  # all models and engines on the same GPUs (hybrid engine)
    async_enable: bool = False  # generate an iteration while the one before is trained


@dataclass(frozen=True)
class Eval:
    """Games on held-out documents in the middle of training and after it."""

    games: int = 0  # 0: none. The first documents of the corpus are held out, one a game
    steps: int | None = None  # every so many iterations; default: once, after the last
    n_samples_per_prompt: int | None = None  # calls a document; default: players, which is one game
    temperature: float | None = None  # default: --rollout.temperature


@dataclass(frozen=True)
class Ckpt:
    """Where results go."""

    output_dir: str = "outputs/run"  # every node must see it under the same name
    save_steps: int = 10
    max_num: int = 3  # checkpoints kept
    load_enable: bool = False  # go on from the last checkpoint in output_dir


@dataclass(frozen=True)
class Wandb:
    """Weights & Biases, as OpenRLHF logs to it."""

    project: str | None = None  # turns it on
    org: str | None = None
    group: str | None = None
    run_name: str | None = None
    key: str | None = None  # default: WANDB_API_KEY. Never written to config.json nor shown


@dataclass(frozen=True)
class Logger:
    """OpenRLHF's own logs; ours always go to metrics.jsonl."""

    tensorboard_dir: str | None = None
    wandb: Wandb = field(default_factory=Wandb)


@dataclass(frozen=True)
class Ds:
    """DeepSpeed."""

    param_dtype: str = "auto"  # OpenRLHF's "bf16" or "fp16"; auto: bf16
    ring_attn_size: int = 1
    tensor_parallel_size: int = 1


@dataclass(frozen=True)
class Ray:
    """Where it runs."""

    address: str | None = None  # such as http://HEAD:8265: submit as a job there; default: run here


@dataclass(frozen=True)
class Config:
    """A run of OpenRLHF; see the sections."""

    game: GameConfig = field(default_factory=GameConfig)
    actor: Actor = field(default_factory=Actor)
    ref: Ref = field(default_factory=Ref)
    algo: Algo = field(default_factory=Algo)
    rollout: Rollout = field(default_factory=Rollout)
    vllm: Vllm = field(default_factory=Vllm)
    train: Train = field(default_factory=Train)
    data: Data = field(default_factory=Data)
    eval: Eval = field(default_factory=Eval)
    ckpt: Ckpt = field(default_factory=Ckpt)
    logger: Logger = field(default_factory=Logger)
    ds: Ds = field(default_factory=Ds)
    ray: Ray = field(default_factory=Ray)

    def __post_init__(self) -> None:
        check_values(self)
        # these raise for values that they can't take
        rules_of(self.game), reward_rules_of(self.game), schedule_of(self.game), self.sampling, self.template_options
        check_together(self)

    @property
    def sampling(self) -> dict[Stage, Sampling]:
        """Sampling by stage."""
        rollout = self.rollout
        return sampling_by_stage(rollout.max_new_tokens, rollout.temperature, rollout.performing, rollout.detection)

    @property
    def template_options(self) -> dict[str, Any]:
        """What the chat template is told."""
        return template_options(self.rollout.chat_template_kwargs)

    @property
    def samples_per_iteration(self) -> int:
        """Documents times samples a document."""
        return self.rollout.batch_size * self.rollout.n_samples_per_prompt

    @property
    def rows_per_episode(self) -> int:
        """Rows of the prompt data set."""
        return self.train.iterations * self.rollout.batch_size // self.train.num_episodes

    @property
    def ranks(self) -> int:
        """Over how many processes an iteration's samples are spread."""
        actor, ds = self.actor, self.ds
        return actor.num_nodes * actor.num_gpus_per_node // (ds.ring_attn_size * ds.tensor_parallel_size)

    def without_secrets(self) -> dict[str, Any]:
        """All settings as nested dicts, as they may be written and shown."""
        row = dataclasses.asdict(self)
        row["logger"]["wandb"]["key"] = None
        return row


def filled_in(config: Config) -> Config:
    """The same config with a value wherever None stood for one that follows from others."""
    actor, rollout, train, evaluation, vllm = config.actor, config.rollout, config.train, config.eval, config.vllm
    micro = train.micro_batch_size or 1
    fit = actor.num_nodes * actor.num_gpus_per_node // vllm.tensor_parallel_size
    temperature = rollout.temperature if evaluation.temperature is None else evaluation.temperature
    return replace(
        config,
        ref=Ref(
            config.ref.num_nodes or actor.num_nodes,
            config.ref.num_gpus_per_node or actor.num_gpus_per_node,
        ),
        rollout=replace(rollout, micro_batch_size=rollout.micro_batch_size or micro),
        train=replace(train, micro_batch_size=micro, batch_size=train.batch_size or config.samples_per_iteration),
        vllm=replace(
            vllm, num_engines=vllm.num_engines or (fit if train.colocate_all and not train.async_enable else 1)
        ),
        eval=replace(
            evaluation,
            steps=evaluation.steps or (train.iterations if evaluation.games else None),
            n_samples_per_prompt=evaluation.n_samples_per_prompt or config.game.players,
            temperature=temperature,
        ),
        ds=replace(config.ds, param_dtype="bf16" if config.ds.param_dtype == "auto" else config.ds.param_dtype),
    )
