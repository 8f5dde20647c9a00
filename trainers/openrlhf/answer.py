"""What a call hands back to OpenRLHF: a sample's tokens, its advantage in the place of a reward, and what to log. Pure."""

from __future__ import annotations

from typing import Any

from spy_env import ABSTAIN, UNREADABLE, Game, RewardRules, Seat, Stage
from trainers.engines import Reply
from trainers.openrlhf.dealing import Place
from trainers.rollout import Played

Answer = dict[str, Any]


def answer_of(played: Played, place: Place, advantage: float, rules: RewardRules) -> Answer:
    """A seat's reply as OpenRLHF takes it.

    ``reward`` is the finished advantage, which the estimator ``dr_grpo`` hands on unchanged; ``scores`` is the reward that
    the game pays. Of a reply that isn't trained, whose advantage is 0, only the last token counts as an action: a sample
    without any makes OpenRLHF's metrics NaN.
    """
    reply = played.replies[place.stage][place.seat]
    tokens = [*reply.prompt_ids, *reply.ids]
    begin = len(reply.prompt_ids) if place.trained else len(tokens) - 1
    earned = reward_of(played.game, place, rules)
    return {
        "reward": advantage,
        "scores": earned,
        "observation_tokens": tokens,
        "action_ranges": [(begin, len(tokens))],
        "rollout_log_probs": [0.0] * len(reply.prompt_ids) + list(reply.logprobs) if reply.logprobs else None,
        "truncated": reply.truncated,
        "extra_logs": logs_of(played.game, place.seat, place.stage, earned, reply),
        "mm_train_inputs": None,
    }


def evaluation_of(played: Played, place: Place, rules: RewardRules) -> Answer:
    """A performance of a held-out game; ``reward`` is the game's detection accuracy, which OpenRLHF reports as pass1."""
    answer = answer_of(played, place, 0.0, rules)
    return answer | {"reward": answer["extra_logs"]["game/hits"]}


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
