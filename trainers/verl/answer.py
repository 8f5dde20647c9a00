"""What a call hands back to verl: a sample's tokens, its advantage in the place of a reward, and what to log."""

from __future__ import annotations

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from spy_env import RewardRules
from trainers.cluster.prompt_rows import Place, logs_of, reward_of
from trainers.rollout import Played


def answer_of(played: Played, place: Place, advantage: float, rules: RewardRules) -> AgentLoopOutput:
    """A seat's reply as verl takes it; the estimator ``spyrl`` hands ``reward_score`` on unchanged.

    Of a reply that isn't trained, whose advantage is 0, only the last token counts, so that no mean is over nothing.
    """
    reply = played.replies[place.stage][place.seat]
    earned = reward_of(played.game, place, rules)
    logs = logs_of(played.game, place.seat, place.stage, earned, reply)
    untrained = 0 if place.trained else len(reply.ids) - 1
    return AgentLoopOutput(
        prompt_ids=list(reply.prompt_ids),
        response_ids=list(reply.ids),
        response_mask=[0] * untrained + [1] * (len(reply.ids) - untrained),
        response_logprobs=list(reply.logprobs) or None,
        reward_score=advantage,
        num_turns=2,
        metrics=AgentLoopMetrics(),
        extra_fields={"reward_extra_info": logs, "turn_scores": [], "tool_rewards": []},
    )


def evaluation_of(played: Played, place: Place, rules: RewardRules) -> AgentLoopOutput:
    """A performance of a held-out game; its score is the game's detection accuracy."""
    answer = answer_of(played, place, 0.0, rules)
    answer.reward_score = answer.extra_fields["reward_extra_info"]["game/hits"]
    return answer
