"""The flags that say what is played and how replies are generated, the same for every trainer: ``--game.*`` and sampling."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spy_env import PRESETS, RewardRules, Rules, Stage
from trainers.curriculum import Curriculum, Schedule
from trainers.engines import Sampling


@dataclass(frozen=True)
class GameConfig:
    """The game. None stands for the task's default."""

    task: str = "summarization"  # a shipped task, my_task.py, or module:TASK
    players: int = 5
    voters: str = "all"  # "civilians", "referees"
    referees: int = 8
    operator: str = "span"
    mask_fraction: float | None = None
    document_words: int | None = None
    words: int | None = None
    rewards: str = "spyrl"  # preset; "vision_zero" makes weak detectors abstain
    right: float | None = None  # the preset's, unless given
    wrong: float | None = None
    abstain: float | None = None
    unreadable: float | None = None
    beta: float | None = None
    lam: float | None = None
    rae: bool = True  # subtract a running baseline of each role's performing rewards
    alpha: float = 0.9
    normalise_performing: bool = False  # ablation: divide a game's performing advantages by their population std
    shuffle_advantages: bool = False  # control: deal each stage's advantages out to its replies at random
    schedule: str = "hysteresis"  # "cycle", "detection", "performing", "joint"
    cycle: tuple[int, int] = (5, 5)  # iterations of detection, of performing
    k_min: int = 5
    patience: int = 20
    rho: float = 0.95
    accuracy_enough: float = 0.9
    abstention_low: float = 0.1
    error_high: float = 0.4
    abstention_high: float = 0.5


@dataclass(frozen=True)
class StageSampling:
    """How one stage's replies are generated."""

    max_new_tokens: int | None = None  # default: --rollout.max_new_tokens
    prefill: str = ""  # put in the seat's mouth: part of the prompt, not trained
    stop: str = ""  # end a reply at the first token that holds this


def rules_of(game: GameConfig) -> Rules:
    """The rules of a game, the task's defaults not yet filled in.

    Raises:
        ValueError: a value that no game can be played with.
    """
    return Rules(**{f.name: getattr(game, f.name) for f in dataclasses.fields(Rules)})


def reward_rules_of(game: GameConfig) -> RewardRules:
    """The preset, with the prices that were given.

    Raises:
        ValueError: no such preset.
    """
    if game.rewards not in PRESETS:
        raise ValueError(f"--game.rewards is {game.rewards!r}; choose one of {sorted(PRESETS)}")
    names = [f.name for f in dataclasses.fields(RewardRules)]
    given = {name: value for name in names if (value := getattr(game, name)) is not None}
    return dataclasses.replace(PRESETS[game.rewards], **given)


def schedule_of(game: GameConfig) -> Schedule:
    """The schedule.

    Raises:
        ValueError: a value that no schedule can have.
    """
    names = [f.name for f in dataclasses.fields(Schedule) if f.name != "kind"]
    return Schedule(kind=game.schedule, **{name: getattr(game, name) for name in names})


def start_curriculum(game: GameConfig, seed: int) -> Curriculum:
    """The curriculum before the first iteration; ``seed`` is of the control that deals advantages out at random."""
    shuffle_seed = seed if game.shuffle_advantages else None
    return Curriculum.start(
        schedule_of(game), reward_rules_of(game), game.rae, game.alpha, game.normalise_performing, shuffle_seed
    )


def sampling_by_stage(
    max_new_tokens: int, temperature: float, performing: StageSampling, detection: StageSampling
) -> dict[Stage, Sampling]:
    """Sampling by stage; a stage's own length goes before the one for both.

    Raises:
        ValueError: a value that nothing can be sampled with.
    """
    return {
        stage: Sampling(
            max_new_tokens if own.max_new_tokens is None else own.max_new_tokens, temperature, own.prefill, own.stop
        )
        for stage, own in ((Stage.PERFORMING, performing), (Stage.DETECTION, detection))
    }


def template_options(said: str) -> dict[str, Any]:
    """What the chat template is told, from ``--rollout.chat_template_kwargs``.

    Raises:
        ValueError: it isn't a JSON object.
    """
    try:
        options = json.loads(said)
    except json.JSONDecodeError as error:
        raise ValueError(f"--rollout.chat_template_kwargs is {said!r}, not JSON ({error})") from error
    if not isinstance(options, dict):
        raise ValueError(f"--rollout.chat_template_kwargs is {said!r}; give a JSON object")
    return options


def check_seats(samples: int, players: int) -> None:
    """A document's samples are the seats of whole games.

    Raises:
        ValueError: they are not.
    """
    if samples % players:
        raise ValueError(
            f"--rollout.n_samples_per_prompt is {samples}, no multiple of --game.players {players}: "
            f"each sample is a seat, so give {players}, {2 * players}, ..."
        )


def check_room(max_len: int, players: int, sampling: Mapping[Stage, Sampling]) -> None:
    """A vote's prompt holds all performances, at worst each of full length, and no prompt is ever cut.

    Raises:
        ValueError: replies alone take all the room there is.
    """
    performance, vote = (sampling[stage].max_new_tokens for stage in (Stage.PERFORMING, Stage.DETECTION))
    if (ballot := players * performance) + vote >= max_len:
        raise ValueError(
            f"--data.max_len is {max_len}, and a ballot of {players} performances may take {ballot} tokens and a vote {vote}, "
            "which leaves nothing for the document; raise it, or lower --rollout.performing.max_new_tokens"
        )
