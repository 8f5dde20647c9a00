"""From rewards to advantages. Pure functions of a finished game and of the baselines that a run keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spy_env.game import Game
from spy_env.rewards import RewardRules
from spy_env.seats import Seat

EPSILON = 1e-6  # in GRPO's denominator


def group_advantages(rewards: Sequence[float]) -> list[float]:
    """GRPO's: (r - mean) / (std + eps) with the population std. Equal rewards give exactly 0 (SpyRL Eq 5)."""
    if not rewards or max(rewards) == min(rewards):
        return [0.0] * len(rewards)
    mean = sum(rewards) / len(rewards)
    std = (sum((reward - mean) ** 2 for reward in rewards) / len(rewards)) ** 0.5
    return [(reward - mean) / (std + EPSILON) for reward in rewards]


def role_advantages(
    rewards: Mapping[str, float], roles: Mapping[str, str], baselines: Mapping[str, float]
) -> dict[str, float]:
    """Role-advantage estimation: each seat's reward less its role's baseline, 0 where there is none yet (SpyRL Eq 10)."""
    return {seat: reward - baselines.get(roles[seat], 0.0) for seat, reward in rewards.items()}


def performing_advantages(
    game: Game, rules: RewardRules, baselines: Mapping[str, float], normalise: bool = False
) -> dict[Seat, float]:
    """Of all players of a game that is over; ``normalise`` divides them by their std (an ablation)."""
    if not game.readable:  # no vote says anything about the performances
        return dict.fromkeys(game.players, 0.0)
    rewards = game.rewards(rules).performing
    keys = {seat: baseline_key(game, game.role(seat)) for seat in rewards}
    advantages = role_advantages(rewards, keys, baselines)
    return dict(zip(advantages, group_advantages(list(advantages.values())), strict=True)) if normalise else advantages


def detection_advantages(game: Game, rules: RewardRules) -> dict[Seat, float]:
    """Of the trained voters of a game that is over, normalised among them."""
    rewards, voters = game.rewards(rules).detection, game.trained_voters
    return dict(zip(voters, group_advantages([rewards[voter] for voter in voters]), strict=True))


def baseline_key(game: Game, role: str) -> str:
    """Baselines are kept apart by task, number of players and role."""
    return f"{game.task}/{game.rules.players}/{role}"
