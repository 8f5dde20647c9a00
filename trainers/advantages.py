"""From rewards to advantages. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
