"""The learner against a fixed opponent, on either side of the same deals. In self-play rewards sum to zero whatever is
learned; here they tell who plays better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spy_env import Game, RewardRules
from spy_env.seats import ROLES
from trainers.engines import Engine
from trainers.metrics import Estimate, average, measure, share
from trainers.rollout import SeatPolicies

SELF_PLAY, SPY, CIVILIANS = "self-play", "spy", "civilians"
SIDES = {SPY: ("spy",), CIVILIANS: ("civilian", "referee")}  # the learner's roles


def seatings_of(seating: SeatPolicies, opponent: Engine | None) -> dict[str, SeatPolicies]:
    """The learner's seating and, where there is an opponent, one for each side that the learner may play."""
    if opponent is None:
        return {SELF_PLAY: seating}
    against = {
        side: replace(seating, others=dict.fromkeys([role for role in ROLES if role not in learner], opponent))
        for side, learner in SIDES.items()
    }
    return {SELF_PLAY: seating, **against}


def file_of(kind: str, point: str) -> str:
    """Where the games of a seating are saved; ``point`` is ``before``, ``after`` or an iteration."""
    return f"eval_{point}.jsonl" if kind == SELF_PLAY else f"eval_{kind}_{point}.jsonl"


def measure_all(games: Mapping[str, Sequence[Game]], rules: RewardRules) -> dict[str, Estimate]:
    """What the games of each seating say: self-play's measures, and the learner's against the opponent."""
    measured = measure(games[SELF_PLAY], rules)
    return measured | (measure_against(games[SPY], games[CIVILIANS], rules) if SPY in games else {})


def measure_against(as_spy: Sequence[Game], as_civilians: Sequence[Game], rules: RewardRules) -> dict[str, Estimate]:
    """The learner's spy against the opponent's civilians, and the learner's civilians against the opponent's spy.

    On both sides of a deal the learner earns what its spy earns, and what its civilians earn together, which is what
    the opponent's spy loses: 0 in the mean where the two play alike.
    """
    spy, civilians = measure(as_spy, rules), measure(as_civilians, rules)
    earned = [[game.rewards(rules).performing[game.spy] for game in games] for games in (as_spy, as_civilians)]
    return {
        "learner spy: votes received": average([game.tally().received[game.spy] for game in as_spy]),
        "learner spy: not caught": share([not game.caught for game in as_spy], [1] * len(as_spy)),
        "learner spy: performing reward": spy["performing reward, spy"],
        "learner civilians: performing reward": civilians["performing reward, civilian"],
        "learner civilians: detection accuracy": civilians["detection accuracy"],
        "learner on both sides: performing reward": average(
            [own - opponents for own, opponents in zip(*earned, strict=True)]
        ),
    }
