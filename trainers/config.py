"""Every setting of every trainer: one frozen record in groups, with OpenRLHF's names and meanings where it has them.

Values come from the defaults here, then a ``--config`` file (TOML or JSON, such as a run's ``config.json``), then flags.
A setting is one field, with its range; a launcher's table names those that it hands on or refuses. No torch here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spy_env import PRESETS, STAGES, RewardRules, Rules, Stage
from spy_env.ranges import check_ranges, choice, ranged
from spy_env.seats import ROLES
from trainers.curriculum import Curriculum, Schedule
from trainers.engines import Sampling
from trainers.small_model import SMALL_MODEL

LOWEST_IN_VLLM = 0.01  # vLLM samples at this temperature where it is told a lower one


@dataclass(frozen=True)
class GameConfig(Rules):
    """The game: its rules, and the reward prices."""

    task: str = "summarization"  # a shipped task, my_task.py, or module:TASK
    rewards: str = choice(*PRESETS)  # preset; "vision_zero" makes weak detectors abstain
    right: float | None = ranged(None)  # price of a vote for the spy; default the preset's, as for the next five
    wrong: float | None = ranged(None)  # of a vote for a civilian
    abstain: float | None = ranged(None)  # of N/A
    unreadable: float | None = ranged(None)  # of a reply without a vote
    beta: float | None = ranged(None)  # weight of the votes for the spy in performing rewards (Eq 6)
    lam: float | None = ranged(None)  # weight of a civilian's own votes (Eq 6)

    def __post_init__(self) -> None:
        check_ranges(self, "--game.")
        super().__post_init__()

    @property
    def rules(self) -> Rules:
        """The rules alone; the task's defaults aren't filled in yet."""
        return Rules(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Rules)})

    @property
    def reward_rules(self) -> RewardRules:
        """The preset, with the given prices in place of its own."""
        prices = {f.name: getattr(self, f.name) for f in dataclasses.fields(RewardRules)}
        given = {name: price for name, price in prices.items() if price is not None}
        return dataclasses.replace(PRESETS[self.rewards], **given)


@dataclass(frozen=True)
class StageSampling:
    """How one stage's replies are generated."""

    max_new_tokens: int | None = ranged(None, least=1)  # default: --rollout.max_new_tokens
    prefill: str = ""  # put in the seat's mouth: part of the prompt, not trained
    stop: str = ""  # end a reply at the first token that holds this


@dataclass(frozen=True)
class Adam:
    """AdamW. A long second moment would starve the performing stage, whose advantages are a tenth of detection's."""

    lr: float = ranged(1e-6, least=0)
    betas: tuple[float, float] = ranged((0.9, 0.95), least=0, below=1)
    eps: float = ranged(1e-8, least=0)
    weight_decay: float = ranged(0.0, least=0)


@dataclass(frozen=True)
class Actor:
    """The model that is trained: the learner, who plays all seats that no opponent plays."""

    # a folder (on a cluster one that every node sees), a hub id, or "smollm2-135m"
    model_name_or_path: str = SMALL_MODEL
    adam: Adam = field(default_factory=Adam)
    max_norm: float = ranged(1.0, above=0)  # gradients are clipped to this norm
    eps_clip: float = ranged(0.2, above=0)
    loss_agg_mode: str = choice("token-mean", "seq-mean-token-mean")
    ratio: str = choice("token", "sequence", "sequence-mean")  # "sequence" is Eq 8
    gradient_checkpointing_enable: bool = False
    # how the tokens that samples share are computed once
    shared_prompts: str = choice("auto", "cascade", "mask", "off")
    num_nodes: int = ranged(1, least=1)  # of a cluster
    num_gpus_per_node: int = ranged(8, least=1)  # of a cluster


@dataclass(frozen=True)
class Rollout:
    """How games are generated."""

    batch_size: int = ranged(8, least=1)  # documents per iteration
    n_samples_per_prompt: int = ranged(5, least=1)  # samples per document; games = batch_size x this / players
    max_new_tokens: int = ranged(512, least=1)
    # the trainer divides its logits by the same; nothing else bends the distribution
    temperature: float = ranged(1.0, above=0)
    # replies generated at a time (default 32); OpenRLHF: samples scored at a time
    micro_batch_size: int | None = ranged(None, least=1)
    # tokens of their prompts and replies at a time (default 32768)
    max_tokens_per_gpu: int | None = ranged(None, least=1)
    performing: StageSampling = field(default_factory=StageSampling)
    detection: StageSampling = field(default_factory=StageSampling)
    chat_template_kwargs: str = "{}"  # JSON for the chat template, such as {"enable_thinking": false}
    engine: str = choice("transformers", "vllm")  # vLLM runs in the trainer's process; on a cluster it always generates
    # on a cluster: seconds that one reply may take, its wait for the engine included
    deadline_s: float = ranged(1800.0, least=1)


@dataclass(frozen=True)
class Kl:
    """KL to the model as it was before training, as a loss term (k3)."""

    init_coef: float = ranged(0.001, least=0)


@dataclass(frozen=True)
class Algo(Schedule):
    """The algorithm: the schedule, role advantages, KL, warm start."""

    kl: Kl = field(default_factory=Kl)
    rae: bool = True  # subtract a running baseline of each role's performing rewards
    alpha: float = ranged(0.9, least=0, most=1)  # decay of these baselines
    normalise_performing: bool = False  # ablation: divide a game's performing advantages by their population std
    # games, rounded up to whole iterations, on which detectors are fitted to right votes before training; 0: none
    warm_start: int = ranged(0, least=0)
    shuffle_advantages: bool = False  # control: deal each stage's advantages out to its replies at random

    def __post_init__(self) -> None:
        check_ranges(self, "--algo.")
        super().__post_init__()

    def start(self, rewards: RewardRules, seed: int) -> Curriculum:
        """Return the curriculum before the first iteration. ``seed`` is for the control, which deals advantages out at random."""
        schedule = Schedule(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Schedule)})
        shuffle_seed = seed if self.shuffle_advantages else None
        return Curriculum.start(schedule, rewards, self.rae, self.alpha, self.normalise_performing, shuffle_seed)


@dataclass(frozen=True)
class Train:
    """How the model is updated."""

    iterations: int = ranged(100, least=1)
    # samples per optimizer step; default all of an iteration: one update
    batch_size: int | None = ranged(None, least=1)
    # tokens computed at a time (or one sample), each shared one counted once; default: twice --data.max_len, at least 4096
    max_tokens_per_gpu: int | None = ranged(None, least=1)
    # samples computed at a time; default: as many as those tokens hold
    micro_batch_size: int | None = ranged(None, least=1)
    max_epochs: int = ranged(1, least=1)  # passes over an iteration's samples
    seed: int = ranged(42)
    max_minutes: float | None = ranged(None, least=0)  # stop after the iteration that passes this; default: never
    num_episodes: int = ranged(1, least=1)  # OpenRLHF: passes over the prompt data set; each pass deals new games
    colocate_all: bool = False  # OpenRLHF: all models and engines on the same GPUs (hybrid engine)
    async_enable: bool = False  # OpenRLHF: generate an iteration while the one before is trained


@dataclass(frozen=True)
class Data:
    """The corpus."""

    # .jsonl, folder of text files, id:config:split:column, or "aclsum"; default the task's own
    documents: str | None = None
    input_key: str = "text"  # the field of a JSONL row that holds the text
    max_len: int = ranged(4096, least=1)  # prompt + reply in tokens; documents are shortened to fit
    max_samples: int | None = ranged(None, least=1)  # use only the first documents


@dataclass(frozen=True)
class Eval:
    """The same games on held-out documents before and after training."""

    games: int = ranged(0, least=0)  # 0: none. The first documents of the corpus are held out, one per game
    steps: int | None = ranged(None, least=1)  # also every so many iterations
    opponent: str = ""  # also the learner against this one, on either side: as in --opponents, but for "past"
    # OpenRLHF: calls per document; default players, which is one game
    n_samples_per_prompt: int | None = ranged(None, least=1)
    temperature: float | None = ranged(None, above=0)  # OpenRLHF; default --rollout.temperature


@dataclass(frozen=True)
class Ckpt:
    """Where results go."""

    output_dir: str = "outputs/run"  # on a cluster every node must see it under the same name
    save_steps: int = ranged(10, least=1)
    max_num: int = ranged(3, least=1)  # checkpoints kept
    # iterations whose games are kept when a checkpoint is saved; default all
    games_max_num: int | None = ranged(None, least=1)
    load_enable: bool = False  # go on from the last checkpoint in output_dir


@dataclass(frozen=True)
class Wandb:
    """Weights & Biases."""

    project: str | None = None  # turns it on
    org: str | None = None  # default: the key's owner
    group: str | None = None
    run_name: str | None = None  # default: one is invented
    key: str | None = None  # default: WANDB_API_KEY, or who is logged in. Never written to config.json nor shown


@dataclass(frozen=True)
class Logger:
    """Metrics always go to metrics.jsonl, and under the same names to what is chosen here."""

    tensorboard_dir: str | None = None
    wandb: Wandb = field(default_factory=Wandb)


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters (peft); merged on export."""

    rank: int = ranged(0, least=0)  # 0: full fine-tuning
    alpha: int = ranged(16, least=1)
    target_modules: str = "all-linear"  # or names, comma-separated


@dataclass(frozen=True)
class Ds:
    """OpenRLHF keeps LoRA, precision and parallelism here."""

    lora: Lora = field(default_factory=Lora)
    param_dtype: str = choice("auto", "bf16", "fp16", "fp32")  # auto: bf16 on a GPU, fp32 on a CPU
    ring_attn_size: int = ranged(1, least=1)  # OpenRLHF: GPUs that share a sequence
    tensor_parallel_size: int = ranged(1, least=1)  # OpenRLHF: GPUs that share a layer


@dataclass(frozen=True)
class OpponentsConfig:
    """Who plays the seats of a role: "" is the learner; else "scripted", "random", "model:FOLDER_OR_ID" (frozen),
    "endpoint:URL#MODEL", "initial" (the model before training) or "past" (a checkpoint of this run, drawn each iteration).
    """

    spy: str = ""
    civilian: str = ""
    referee: str = ""
    # "past" is one of so many last checkpoints (every --ckpt.save_steps), which are kept for it
    pool: int = ranged(5, least=1)


@dataclass(frozen=True)
class Vllm:
    """vLLM's engines. Their model length is --data.max_len."""

    # share of a GPU for weights and cache (default 0.4)
    gpu_memory_utilization: float | None = ranged(None, above=0, most=1)
    enforce_eager: bool = False  # no CUDA graphs; always so on a CPU
    enable_prefix_caching: bool = True  # prompts that begin alike are computed once
    # OpenRLHF; default: with --train.colocate_all as many as fill the GPUs, else 1
    num_engines: int | None = ranged(None, least=1)
    tensor_parallel_size: int = ranged(1, least=1)  # OpenRLHF: GPUs per engine


@dataclass(frozen=True)
class Config:
    """Train a model by playing "Who is the spy?"."""

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
        check_ranges(self, "--")
        self.template_options  # noqa: B018 - raises for what isn't JSON
        samples, players = self.rollout.n_samples_per_prompt, self.game.players
        if samples % players:
            raise ValueError(
                f"--rollout.n_samples_per_prompt is {samples}, no multiple of --game.players {players}: "
                f"each sample is a seat, so give {players}, {2 * players}, ..."
            )
        check_budget(self.data.max_len, players, self.sampling)
        if self.eval.steps and not self.eval.games:
            raise ValueError(f"--eval.steps is {self.eval.steps}, and no games are held out; give --eval.games")

    @property
    def opponent_of(self) -> dict[str, str]:
        """The opponents by role; the learner's roles are left out."""
        return {role: player for role in ROLES if (player := getattr(self.opponents, role))}

    @property
    def sampling(self) -> dict[Stage, Sampling]:
        """Sampling by stage."""
        rollout = self.rollout
        return sampling_by_stage(rollout.max_new_tokens, rollout.temperature, rollout.performing, rollout.detection)

    @property
    def template_options(self) -> dict[str, Any]:
        """The options of the chat template."""
        return template_options(self.rollout.chat_template_kwargs)

    @property
    def tokens_at_a_time(self) -> int:
        """Tokens of an update on one device computed at a time: enough for a game whose samples share their prompts."""
        return self.train.max_tokens_per_gpu or max(4096, 2 * self.data.max_len)

    @property
    def samples_per_iteration(self) -> int:
        """Samples per iteration: documents times samples per document."""
        return self.rollout.batch_size * self.rollout.n_samples_per_prompt

    @property
    def games_per_iteration(self) -> int:
        """Games per iteration: samples by players."""
        return self.samples_per_iteration // self.game.players

    @property
    def warm_start_iterations(self) -> int:
        """Iterations before training that fit detectors to right votes."""
        return -(-self.algo.warm_start // self.games_per_iteration)

    def warms_up(self, step: int) -> bool:
        """Return whether iteration ``step`` belongs to the warm start."""
        return step <= self.warm_start_iterations

    @property
    def all_iterations(self) -> int:
        """Iterations of the warm start and of training."""
        return self.warm_start_iterations + self.train.iterations

    def start_curriculum(self) -> Curriculum:
        """Return the curriculum before the first iteration."""
        return self.algo.start(self.game.reward_rules, self.train.seed)

    def without_secrets(self) -> dict[str, Any]:
        """Return all settings as nested dicts, without secrets, so that they may be written and shown."""
        row = dataclasses.asdict(self)
        row["logger"]["wandb"]["key"] = None
        return row


def sampling_by_stage(
    max_new_tokens: int, temperature: float, performing: StageSampling, detection: StageSampling
) -> dict[Stage, Sampling]:
    """Return the sampling of each stage; a stage's own length overrides the one for both.

    Raises:
        ValueError: a value that nothing can be sampled with.
    """
    return {
        stage: Sampling(
            max_new_tokens if by_stage.max_new_tokens is None else by_stage.max_new_tokens,
            temperature,
            by_stage.prefill,
            by_stage.stop,
        )
        for stage, by_stage in ((Stage.PERFORMING, performing), (Stage.DETECTION, detection))
    }


def template_options(text: str) -> dict[str, Any]:
    """Read the options of the chat template from ``--rollout.chat_template_kwargs``.

    Raises:
        ValueError: it isn't a JSON object.
    """
    try:
        options = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"--rollout.chat_template_kwargs is {text!r}, not JSON ({error})") from error
    if not isinstance(options, dict):
        raise ValueError(f"--rollout.chat_template_kwargs is {text!r}; give a JSON object")
    return options


def check_budget(max_len: int, players: int, sampling: Mapping[Stage, Sampling]) -> None:
    """Check that a document has room beside a ballot of performances of full length, since no prompt is ever cut.

    Raises:
        ValueError: replies alone take all the tokens there are.
    """
    performance, vote = (sampling[stage].max_new_tokens for stage in STAGES)
    if (ballot := players * performance) + vote >= max_len:
        raise ValueError(
            f"--data.max_len is {max_len}, and a ballot of {players} performances may take {ballot} tokens and a vote {vote}, "
            "which leaves nothing for the document; raise it, or lower --rollout.performing.max_new_tokens"
        )
