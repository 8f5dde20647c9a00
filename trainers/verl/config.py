"""What ``spyrl verl`` reads. Names and meanings are those of ``spyrl train`` where it has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from spy_env import Stage
from trainers.config import (
    LOWEST_IN_VLLM,
    Adam,
    Algo,
    Data,
    GameConfig,
    StageSampling,
    check_room,
    check_seats,
    sampling_by_stage,
    template_options,
)
from trainers.engines import Sampling
from trainers.settings import check_least

AT_LEAST = {  # where a value is given
    1: (
        *("actor.num_nodes", "actor.num_gpus_per_node", "rollout.batch_size", "rollout.deadline_s"),
        *("train.iterations", "data.max_samples", "eval.steps", "ckpt.save_steps"),
    ),
    0: ("eval.games", "algo.kl.init_coef"),
}


@dataclass(frozen=True)
class Actor:
    """The model that is trained, and its GPUs."""

    model_name_or_path: str = "Qwen/Qwen3-0.6B"  # a folder that every node sees, or a hub id
    num_nodes: int = 1
    num_gpus_per_node: int = 8
    adam: Adam = field(default_factory=Adam)
    eps_clip: float = 0.2


@dataclass(frozen=True)
class Rollout:
    """How games are generated."""

    batch_size: int = 8  # documents an iteration
    n_samples_per_prompt: int = 5  # samples a document; games = batch_size x this / players
    max_new_tokens: int = 512
    temperature: float = 1.0
    performing: StageSampling = field(default_factory=StageSampling)
    detection: StageSampling = field(default_factory=StageSampling)
    chat_template_kwargs: str = "{}"  # JSON for the chat template, such as {"enable_thinking": false}
    deadline_s: float = 1800.0  # seconds that one reply may take, waiting for its turn in the engine included


@dataclass(frozen=True)
class Train:
    """How long, and from which chance."""

    iterations: int = 100  # verl's global steps
    seed: int = 0


@dataclass(frozen=True)
class Eval:
    """Held-out games, played again and again."""

    games: int = 8
    steps: int = 10  # every so many iterations


@dataclass(frozen=True)
class Ckpt:
    """Where everything goes; every node must see it under this name."""

    output_dir: str = "outputs/verl"
    save_steps: int = 20
    load_enable: bool = False  # go on from the last checkpoint


@dataclass(frozen=True)
class Config:
    """A run on verl."""

    game: GameConfig = field(default_factory=GameConfig)
    actor: Actor = field(default_factory=Actor)
    rollout: Rollout = field(default_factory=Rollout)
    data: Data = field(default_factory=Data)
    train: Train = field(default_factory=Train)
    algo: Algo = field(default_factory=Algo)
    eval: Eval = field(default_factory=Eval)
    ckpt: Ckpt = field(default_factory=Ckpt)

    def __post_init__(self) -> None:
        """Refuse what can't be played.

        Raises:
            ValueError: a value, or two together.
        """
        check_least(self, AT_LEAST)
        check_seats(self.rollout.n_samples_per_prompt, self.game.players)
        check_room(self.data.max_len, self.game.players, self.sampling)
        if self.game.schedule == "joint":
            raise ValueError(
                "--game.schedule joint trains both replies of a seat; verl takes one sample a call: spyrl train can"
            )
        if self.game.shuffle_advantages:
            raise ValueError(
                "--game.shuffle_advantages deals advantages out over a whole iteration, and each row's are made where it is "
                "played; run this control with spyrl train"
            )
        if self.rollout.temperature < LOWEST_IN_VLLM:
            raise ValueError(
                f"--rollout.temperature is {self.rollout.temperature}; vLLM samples at {LOWEST_IN_VLLM} or higher"
            )
        template_options(self.rollout.chat_template_kwargs)  # raises for what isn't JSON

    @property
    def sampling(self) -> dict[Stage, Sampling]:
        """Sampling by stage."""
        said = self.rollout
        return sampling_by_stage(said.max_new_tokens, said.temperature, said.performing, said.detection)
