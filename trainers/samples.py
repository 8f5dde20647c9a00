"""What a game gives to a trainer: one sample a reply, tokens as generated, with keys that say whose it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spy_env import RewardRules, Seat, Stage
from trainers.rollout import Played


@dataclass(frozen=True, slots=True)
class Sample:
    """One reply to train on. ``game``, ``stage`` and ``seat`` key it; its group is the game."""

    game: str
    stage: Stage
    seat: Seat
    role: str
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    truncated: bool
    reward: float


def samples_of(played: Iterable[Played], stage: Stage, rules: RewardRules) -> list[Sample]:
    """The trained replies of a stage: every performance, or the votes of all voters but the spy.

    Raises:
        ValueError: a reply has no token ids (an endpoint or a scripted player made it), so it can't be trained on.
    """
    samples = []
    for one in played:
        game = one.game
        rewards = game.rewards(rules)
        earned = rewards.performing if stage is Stage.PERFORMING else rewards.detection
        for seat in game.players if stage is Stage.PERFORMING else game.trained_voters:
            reply = one.replies[stage][seat]
            if not reply.ids:
                raise ValueError(
                    f"game {game.seed}: {seat}'s reply has no token ids; only a local model's replies are trained"
                )
            samples.append(
                Sample(
                    game=game.seed,
                    stage=stage,
                    seat=seat,
                    role=game.role(seat),
                    prompt_ids=reply.prompt_ids,
                    ids=reply.ids,
                    logprobs=reply.logprobs,
                    truncated=reply.truncated,
                    reward=earned[seat],
                )
            )
    return samples
