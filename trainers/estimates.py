"""What a set of games says about its players, each number with the interval of ``spy_env.diagnostics.estimates``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spy_env import ABSTAIN, UNREADABLE, Game, RewardRules, Seat, Vote
from spy_env.diagnostics.estimates import Estimate, average, share
from trainers.metrics import commonest_vote

__all__ = ["Estimate", "average", "measure", "share"]


def measure(games: Sequence[Game], rules: RewardRules) -> dict[str, Estimate]:
    """What a set of games says about its players. All votes count, the spy's too, unless a line says otherwise."""
    cast = [(game, game.votes()) for game in games]

    def votes_that(hit: Callable[[Game, Seat, Vote], bool], of: Callable[[Game, Seat, Vote], bool]) -> Estimate:
        hits = [
            sum(of(game, seat, vote) and hit(game, seat, vote) for seat, vote in votes.items()) for game, votes in cast
        ]
        return share(hits, [sum(of(game, seat, vote) for seat, vote in votes.items()) for game, votes in cast])

    def any_vote(game: Game, seat: Seat, vote: Vote) -> bool:
        return True

    def by_detector(game: Game, seat: Seat, vote: Vote) -> bool:
        return seat != game.spy

    def names_somebody(game: Game, seat: Seat, vote: Vote) -> bool:
        return seat != game.spy and vote not in (ABSTAIN, UNREADABLE)

    def right(game: Game, seat: Seat, vote: Vote) -> bool:
        return vote == game.spy

    def names_the_commonest(game: Game, seat: Seat, vote: Vote) -> bool:
        return vote == commonest

    def named(game: Game, seat: Seat, vote: Vote) -> bool:
        return vote not in (ABSTAIN, UNREADABLE)

    commonest, _ = commonest_vote(games)
    estimates = {
        "readable votes": votes_that(lambda game, seat, vote: vote != UNREADABLE, any_vote),
        "votes that name a player": votes_that(named, any_vote),
        "detection accuracy": votes_that(right, by_detector),
        "detection accuracy where a player is named": votes_that(right, names_somebody),
        "named votes for the commonest number": votes_that(names_the_commonest, named),
    }
    earned = [(game, game.rewards(rules)) for game in games]
    for role in ("spy", "civilian", "referee"):
        for stage in ("performing", "detection"):
            by_game = [
                [reward for seat, reward in getattr(rewards, stage).items() if game.role(seat) == role]
                for game, rewards in earned
            ]
            if any(by_game):
                estimates[f"{stage} reward, {role}"] = average([sum(own) / len(own) for own in by_game if own])
    return estimates
