"""Which games are played on an invitation, and whose reply each call of it returns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from spy_env import Game, Seat, Stage
from trainers.cluster.invitation import EVAL, Invitation
from trainers.prompt_budget import Room, deal_to_fit
from trainers.samples import trained_roles


class Place(NamedTuple):
    """What a call returns: the reply of a seat in a stage of one of the games; it may not be trained."""

    game: int  # by its number in the list of games
    stage: Stage
    seat: Seat
    trained: bool


def deal_games(invitation: Invitation, iteration: int, stage: Stage | None, room: Room) -> list[Game]:
    """The games of an invitation, each dealt anew; those of an evaluation are the same in every evaluation.

    A call is a player, so there are as many games as players fit (an evaluation's last game may have more players than
    calls). Where referees are trained, one game has a referee for every call.

    Raises:
        ValueError: the document can't be made to fit.
    """
    run = invitation.run
    rules, count = run.rules, -(-invitation.samples // run.rules.players)
    if invitation.split == EVAL:
        where = "eval"
    else:
        where = str(iteration)
        if stage is Stage.DETECTION and rules.voters == "referees":
            rules, count = replace(rules, referees=invitation.samples), 1
    games: list[Game] = []
    for i in range(count):
        seed = f"{run.seed}/{where}/{invitation.seed}/{i}"
        games.append(deal_to_fit(invitation.document, run.task, rules, seed, stage, room))
        rules = replace(rules, document_words=games[-1].rules.document_words)  # so that the next needn't look for it
    return games


def places_of(games: Sequence[Game], stage: Stage | None, calls: int) -> list[Place]:
    """A place for every call. In detection a spy's call returns its vote or, where only civilians vote, its performance;
    neither is trained. Without a stage (evaluations) calls return performances.
    """
    places = [place for number, game in enumerate(games) for place in _places(number, game, stage)]
    return places[:calls]


def _places(number: int, game: Game, stage: Stage | None) -> list[Place]:
    if stage is not Stage.DETECTION:
        return [Place(number, Stage.PERFORMING, seat, True) for seat in game.players]
    roles = trained_roles(stage, game.rules.voters)
    votes = [Place(number, stage, voter, game.role(voter) in roles) for voter in game.voters]
    if game.rules.voters == "civilians":
        votes.append(Place(number, Stage.PERFORMING, game.spy, False))
    return votes
