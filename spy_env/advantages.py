"""From rewards to advantages. Pure functions of a finished game and of the baselines that a run keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spy_env.game import Game
from spy_env.rewards import RewardRules
from spy_env.seats import Seat

EPSILON = 1e-6  # in GRPO's denominator


def group_advantages(rewards: Sequence[float]) -> list[float]:
    """Normalise rewards within a group as GRPO does: (r - mean) / (std + eps), with the population std (SpyRL Eq 5).

    Equal rewards give exactly 0.
    """
    if not rewards or max(rewards) == min(rewards):
        return [0.0] * len(rewards)
    mean = sum(rewards) / len(rewards)
    std = (sum((reward - mean) ** 2 for reward in rewards) / len(rewards)) ** 0.5
    return [(reward - mean) / (std + EPSILON) for reward in rewards]


def role_advantages(
    rewards: Mapping[str, float], roles: Mapping[str, str], baselines: Mapping[str, float]
) -> dict[str, float]:
    """Subtract from each seat's reward its role's baseline, 0 before the first update (RAE, SpyRL Eq 10)."""
    return {seat: reward - baselines.get(roles[seat], 0.0) for seat, reward in rewards.items()}


def performing_advantages(
    game: Game, rules: RewardRules, baselines: Mapping[str, float], normalise: bool = False
) -> dict[Seat, float]:
    """Return the advantage of each player's performance in a finished game.

    A game without a readable vote gives exactly 0. ``normalise`` divides by the std (an ablation).
    """
    if not game.readable:  # no vote is evidence about the performances
        return dict.fromkeys(game.players, 0.0)
    rewards = game.rewards(rules).performing
    keys = {seat: baseline_key(game, game.role(seat)) for seat in rewards}
    advantages = role_advantages(rewards, keys, baselines)
    return dict(zip(advantages, group_advantages(list(advantages.values())), strict=True)) if normalise else advantages


def detection_advantages(game: Game, rules: RewardRules) -> dict[Seat, float]:
    """Return the advantages of the trained voters' votes in a finished game, normalised among these voters."""
    rewards, voters = game.rewards(rules).detection, game.trained_voters
    return dict(zip(voters, group_advantages([rewards[voter] for voter in voters]), strict=True))


def baseline_key(game: Game, role: str) -> str:
    """Name the baseline of a role: there is one per task, number of players and role."""
    return f"{game.task}/{game.rules.players}/{role}"
