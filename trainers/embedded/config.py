"""Everything that a run can be told: one frozen dataclass, with OpenRLHF's flag names and meanings where it has them.

``--game.*`` is ours. Values come from the defaults here, then a ``--config`` file (TOML or JSON, such as a run's
``config.json``), then the command line.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from spy_env import RewardRules, Rules, Stage
from trainers.curriculum import Schedule
from trainers.embedded.config_checks import check_together, check_values
from trainers.embedded.loss import LossRules
from trainers.engines import Sampling
from trainers.game_config import (
    GameConfig,
    StageSampling,
    reward_rules_of,
    rules_of,
    sampling_by_stage,
    schedule_of,
    template_options,
)
from trainers.samples import ROLES
from trainers.shared_flags import Adam, Algo, Data


@dataclass(frozen=True)
class Actor:
    """The model that is trained: the learner, who plays all seats that no opponent plays."""

    model_name_or_path: str = "smollm2-135m"  # a folder, a hub id, or "smollm2-135m": the small model of the first run
    adam: Adam = field(default_factory=Adam)
    max_norm: float = 1.0  # gradients are clipped to this norm
    eps_clip: float = 0.2
    loss_agg_mode: str = "token-mean"  # or "seq-mean-token-mean"
    ratio: str = "token"  # or "sequence" (Eq 8), "sequence-mean"
    gradient_checkpointing_enable: bool = False
    shared_prompts: str = "auto"  # compute what samples share once: by "cascade" or "mask", whatever fits; or "off"


@dataclass(frozen=True)
class Rollout:
    """How games are generated."""

    batch_size: int = 8  # documents an iteration
    n_samples_per_prompt: int = 5  # samples a document; games = batch_size x this / players
    max_new_tokens: int = 512
    temperature: float = 1.0  # the trainer divides its logits by the same; nothing else bends the distribution
    micro_batch_size: int = 32  # replies generated at a time ...
    max_tokens_per_gpu: int = 32768  # ... and tokens of their prompts and replies (or one reply)
    performing: StageSampling = field(default_factory=StageSampling)
    detection: StageSampling = field(default_factory=StageSampling)
    chat_template_kwargs: str = "{}"  # JSON for the chat template, such as {"enable_thinking": false}
    engine: str = "transformers"  # or "vllm", which runs in the trainer's process


@dataclass(frozen=True)
class Vllm:
    """The vLLM engine. Its model length is --data.max_len, its number of sequences --rollout.micro_batch_size."""

    gpu_memory_utilization: float = 0.4  # share of the GPU's memory for its weights and cache; the trainer has the rest
    enforce_eager: bool = False  # no CUDA graphs; always so on a CPU
    enable_prefix_caching: bool = True  # prompts that begin alike are computed once


@dataclass(frozen=True)
class Train:
    """How the model is updated."""

    iterations: int = 100
    batch_size: int | None = None  # samples an optimizer step; default all of an iteration: one update
    max_tokens_per_gpu: int | None = None  # tokens computed at a time (or one sample), each shared one counted once;
    # default: twice --data.max_len, at least 4096. Games that share little are computed some 2,000 at a time anyway
    micro_batch_size: int | None = None  # samples computed at a time; default: as many as those tokens hold
    max_epochs: int = 1  # passes over an iteration's samples
    seed: int = 42
    max_minutes: float | None = None  # stop after the iteration that passes this; default: never


@dataclass(frozen=True)
class Eval:
    """The same games on held-out documents before and after training."""

    games: int = 0  # 0: none. The first documents of the corpus are held out, one a game
    steps: int | None = None  # also every so many iterations
    opponent: str = ""  # also the learner against this one, on either side: as in --opponents, but for "past"


@dataclass(frozen=True)
class Ckpt:
    """Where results go."""

    output_dir: str = "outputs/run"
    save_steps: int = 10
    max_num: int = 3  # checkpoints kept
    games_max_num: int | None = None  # iterations whose games are kept when a checkpoint is saved; default all
    load_enable: bool = False  # go on from the last checkpoint in output_dir


@dataclass(frozen=True)
class Wandb:
    """Weights & Biases."""

    project: str | None = None  # turns it on
    org: str | None = None  # default: the key's owner
    group: str | None = None
    run_name: str | None = None  # default: one is invented
    key: str | None = None  # default: WANDB_API_KEY, or who is logged in. Never written to config.json


@dataclass(frozen=True)
class Logger:
    """Metrics always go to metrics.jsonl, and under the same names to what is chosen here."""

    tensorboard_dir: str | None = None
    wandb: Wandb = field(default_factory=Wandb)


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters (peft); merged on export."""

    rank: int = 0  # 0: full fine-tuning
    alpha: int = 16
    target_modules: str = "all-linear"  # or names, comma-separated


@dataclass(frozen=True)
class Ds:
    """OpenRLHF keeps LoRA and precision here."""

    lora: Lora = field(default_factory=Lora)
    param_dtype: str = "auto"  # "bf16" or "fp32" arithmetic; auto: bf16 on a GPU, fp32 on a CPU


@dataclass(frozen=True)
class OpponentsConfig:
    """Who plays the seats of a role: "" is the learner; else "scripted", "random", "model:FOLDER_OR_ID" (frozen),
    "endpoint:URL#MODEL", "initial" (the model before training) or "past" (a checkpoint of this run, drawn each iteration).
    """

    spy: str = ""
    civilian: str = ""
    referee: str = ""
    pool: int = 5  # "past" is one of so many last checkpoints (every --ckpt.save_steps), which are kept for it


@dataclass(frozen=True)
class Config:
    """Train a model by playing "Who is the spy?" on one machine."""

    game: GameConfig = field(default_factory=GameConfig)
    actor: Actor = field(default_factory=Actor)
    algo: Algo = field(default_factory=Algo)
    rollout: Rollout = field(default_factory=Rollout)
    train: Train = field(default_factory=Train)
    data: Data = field(default_factory=Data)
    eval: Eval = field(default_factory=Eval)
    ckpt: Ckpt = field(default_factory=Ckpt)
    logger: Logger = field(default_factory=Logger)
    ds: Ds = field(default_factory=Ds)
    opponents: OpponentsConfig = field(default_factory=OpponentsConfig)
    vllm: Vllm = field(default_factory=Vllm)

    def __post_init__(self) -> None:
        check_values(self)
        # these raise for values that they can't take
        self.rules, self.reward_rules, self.schedule, self.loss_rules, self.sampling, self.template_options  # noqa: B018
        check_together(self)

    @property
    def opponent_of(self) -> dict[str, str]:
        """The opponents by role; the learner's roles are left out."""
        return {role: player for role in ROLES if (player := getattr(self.opponents, role))}

    @property
    def learner_roles(self) -> tuple[str, ...]:
        """The roles that the learner plays."""
        return tuple(role for role in ROLES if role not in self.opponent_of)

    def without_secrets(self) -> dict[str, Any]:
        """All settings as nested dicts, as they may be written and shown."""
        row = dataclasses.asdict(self)
        row["logger"]["wandb"]["key"] = None
        return row

    @property
    def rules(self) -> Rules:
        """The rules of a game, the task's defaults not yet filled in."""
        return rules_of(self.game)

    @property
    def reward_rules(self) -> RewardRules:
        """The preset, with the prices that were given."""
        return reward_rules_of(self.game)

    @property
    def schedule(self) -> Schedule:
        """The schedule."""
        return schedule_of(self.game)

    @property
    def loss_rules(self) -> LossRules:
        """The loss."""
        return LossRules(self.actor.eps_clip, self.algo.kl.init_coef, self.actor.loss_agg_mode, self.actor.ratio)

    @property
    def sampling(self) -> dict[Stage, Sampling]:
        """Sampling by stage."""
        rollout = self.rollout
        return sampling_by_stage(rollout.max_new_tokens, rollout.temperature, rollout.performing, rollout.detection)

    @property
    def tokens_at_a_time(self) -> int:
        """Of an update: room for a game whose samples share their prompts."""
        return self.train.max_tokens_per_gpu or max(4096, 2 * self.data.max_len)

    @property
    def template_options(self) -> dict[str, Any]:
        """What the chat template is told."""
        return template_options(self.rollout.chat_template_kwargs)

    @property
    def games_per_iteration(self) -> int:
        """Documents times samples a document, by players a game."""
        return self.rollout.batch_size * self.rollout.n_samples_per_prompt // self.game.players
