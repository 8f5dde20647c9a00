"""The only place where a reward is computed. Pure functions of the votes, of who the spy is, and of the reward rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spy_env.ballot import ABSTAIN, UNREADABLE, Vote
from spy_env.seats import Seat


@dataclass(frozen=True, slots=True)
class RewardRules:
    """The price of each kind of vote, and how strongly votes move the performers (SpyRL Eq 5 and 6; beta, lam as released)."""

    right: float = 1.0
    wrong: float = 0.0
    abstain: float = 0.0
    unreadable: float = 0.0
    beta: float = 0.1
    lam: float = 0.1


PRESETS: Mapping[str, RewardRules] = {
    "spyrl": RewardRules(),
    # Vision-Zero's. It makes weak detectors abstain: below one right vote in four, N/A pays more than a guess.
    "vision_zero": RewardRules(right=1.0, wrong=-1.0, abstain=-0.5, unreadable=-1.0),
}


@dataclass(frozen=True, slots=True)
class Tally:
    """The counted votes of one game. ``received`` is weighted (see ``count_votes``), the other two are plain counts."""

    received: Mapping[Seat, float]
    abstained: int
    unreadable: int


def count_votes(votes: Mapping[Seat, Vote], players: Sequence[Seat], weight: float = 1.0) -> Tally:
    """Count votes by player. ``weight`` is n/K where K referees vote on n players, so that rewards keep their scale."""
    cast = list(votes.values())
    return Tally(
        received={player: cast.count(player) * weight for player in players},
        abstained=cast.count(ABSTAIN),
        unreadable=cast.count(UNREADABLE),
    )


def detection_rewards(votes: Mapping[Seat, Vote], spy: Seat, rules: RewardRules) -> dict[Seat, float]:
    """Pay each voter: Eq 5, with prices for abstaining and for a reply that can't be read."""
    prices = {ABSTAIN: rules.abstain, UNREADABLE: rules.unreadable, spy: rules.right}
    return {voter: prices.get(vote, rules.wrong) for voter, vote in votes.items()}


def performing_rewards(tally: Tally, spy: Seat, rules: RewardRules) -> dict[Seat, float]:
    """Pay each player for its performance; the rewards sum to zero.

    With m the votes received and mbar the civilians' mean (Eq 6a, 6b)::

        r(spy)        = -beta (m_spy - mbar)
        r(civilian j) =  beta (m_spy - mbar) / n_civilians - lam (m_j - mbar)
    """
    civilians = [player for player in tally.received if player != spy]
    mean = sum(tally.received[player] for player in civilians) / len(civilians)
    margin = rules.beta * (tally.received[spy] - mean)
    return {
        player: 0.0 - margin if player == spy else margin / len(civilians) - rules.lam * (votes - mean)
        for player, votes in tally.received.items()
    }
