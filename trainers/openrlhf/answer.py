"""What a call hands back to OpenRLHF: a sample's tokens, its advantage in the place of a reward, and what to log. Pure."""

from __future__ import annotations

from typing import Any

from spy_env import RewardRules
from trainers.cluster.prompt_rows import Place, logs_of, reward_of
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
