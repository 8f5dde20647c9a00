"""Games made by hand: who the spy is and what each seat says are given, chance has no part."""

from collections.abc import Sequence
from dataclasses import replace

from spy_env import Document, Game, RawReply, Rules, deal

DOCUMENT = Document("d", "The mill at Orrin burned on 3 May. Nobody was hurt, and 40 sacks of rye were lost.")
ABSTAINS, MUMBLES = "N/A", "?"


def dealt(seed: str = "1", spy: str = "player_1", task: str = "summarization", **rules) -> Game:
    """A game of four, unless the rules say otherwise."""
    return replace(deal(DOCUMENT, task, Rules(**{"players": 4, **rules}), seed), spy=spy)


def with_votes(game: Game, votes: str | Sequence[str]) -> Game:
    """One vote for each voter in order of seats: a number, ``N/A``, or ``?``, which can't be read."""
    said = votes.split() if isinstance(votes, str) else votes
    return game.with_replies(
        {seat: RawReply(rf"\boxed{{{vote}}}") for seat, vote in zip(game.voters, said, strict=True)}
    )


def voted(votes: str | Sequence[str], seed: str = "1", spy: str = "player_1", **made) -> Game:
    """A game that is over, whose players have all performed with the same words."""
    game = dealt(seed, spy, **made)
    return with_votes(game.with_replies(dict.fromkeys(game.players, RawReply("Summary: A mill burned."))), votes)


def referees_said(right: int, wrong: int = 0, abstained: int = 0, unreadable: int = 0, seed: str = "1") -> Game:
    """A game whose spy is player 1, judged by as many referees as have something to say."""
    votes = [*["1"] * right, *["2"] * wrong, *[ABSTAINS] * abstained, *[MUMBLES] * unreadable]
    return voted(votes, seed, voters="referees", referees=len(votes))
