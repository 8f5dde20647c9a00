"""What a sample earned and what is logged with it, where a trainer logs by sample: floats alone, the same keys in both stages."""

from __future__ import annotations

from spy_env import ABSTAIN, UNREADABLE, Game, RewardRules, Seat, Stage
from trainers.cluster.dealing import Place
from trainers.engines import Reply


def reward_of(game: Game, place: Place, rules: RewardRules) -> float:
    """What the seat earned in the stage."""
    rewards = game.rewards(rules)
    return (rewards.performing if place.stage is Stage.PERFORMING else rewards.detection)[place.seat]


def logs_of(game: Game, seat: Seat, stage: Stage, earned: float, reply: Reply) -> dict[str, float]:
    """What OpenRLHF logs beside its own: the same keys for every sample, none of them OpenRLHF's.

    Hits, abstentions and unreadable votes are shares of the game's trained voters.
    """
    votes = game.votes()
    cast = [votes[voter] for voter in game.trained_voters]
    role = game.role(seat)
    return {
        "game/raw_reward": earned,
        "game/detection": float(stage is Stage.DETECTION),
        **{f"game/role_{name}": float(role == name) for name in ("spy", "civilian", "referee")},
        "game/hits": sum(vote == game.spy for vote in cast) / len(cast),
        "game/abstentions": sum(vote == ABSTAIN for vote in cast) / len(cast),
        "game/unreadable": sum(vote == UNREADABLE for vote in cast) / len(cast),
        "game/caught": float(game.caught),
        "game/truncated": float(reply.truncated),
    }
