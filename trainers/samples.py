"""Samples: one per trained reply, with tokens as generated, and the keys of game, stage and seat."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from spy_env import RewardRules, Seat, Stage
from spy_env.seats import ROLES
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


def trained_roles(stage: Stage, voters: str) -> frozenset[str]:
    """Return the roles whose replies a stage trains: of all performances, or of all votes but the spy's."""
    if stage is Stage.PERFORMING:
        return frozenset(("spy", "civilian"))
    return frozenset(("referee" if voters == "referees" else "civilian",))


def samples_of(
    played: Iterable[Played], stage: Stage, rules: RewardRules, learner: Collection[str] = ROLES
) -> list[Sample]:
    """Return the trained replies of a stage, of the roles that the learner plays.

    Raises:
        ValueError: a reply has no token ids (an endpoint or a scripted player made it), so it can't be trained on.
    """
    samples = []
    for one in played:
        game = one.game
        rewards = game.rewards(rules)
        earned = rewards.performing if stage is Stage.PERFORMING else rewards.detection
        trained = trained_roles(stage, game.rules.voters).intersection(learner)
        for seat in game.players if stage is Stage.PERFORMING else game.voters:
            if game.role(seat) not in trained:
                continue
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
