"""A game as those who judge performances see it: what each player shows, what its copy of the document holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spy_env.ballot import ABSTAIN, UNREADABLE
from spy_env.game import Game, Stage
from spy_env.masking import hide
from spy_env.seats import Seat

Shown = Mapping[Seat, str]


def over(games: Iterable[Game]) -> list[Game]:
    """The games that all votes have been cast in, in order."""
    return [game for game in games if game.stage is Stage.OVER]


def first_of_each_seed(games: Iterable[Game]) -> list[Game]:
    """The games that are over, without those that a seed was dealt before: who the spy is was known then."""
    first: dict[str, Game] = {}
    for game in over(games):
        first.setdefault(game.seed, game)
    return list(first.values())


def shown(game: Game) -> dict[Seat, str]:
    """Each player's performance, as far as the ballot has room for it."""
    return {seat: said.text[: game.shown_characters.get(seat)] for seat, said in game.performances().items()}


def copies(game: Game) -> dict[str, str]:
    """The document by the role that reads it: the spy's is masked."""
    text = game.document.text
    return {"spy": hide(text, game.hidden, game.rules.operator), "civilian": text}


def seen_and_hidden(game: Game) -> tuple[str, str]:
    """What the spy saw of the document, and what it didn't see."""
    text, seen, unseen, position = game.document.text, [], [], 0
    for span in game.hidden:
        seen.append(text[position : span.start])
        unseen.append(text[span.start : span.end])
        position = span.end
    return "\n".join([*seen, text[position:]]), "\n".join(unseen)


def detector_share(game: Game) -> float:
    """The share of the trained voters' votes that name the spy: the model's own accuracy in one game."""
    votes = game.votes()
    return sum(votes[seat] == game.spy for seat in game.trained_voters) / len(game.trained_voters)


def named_votes(game: Game) -> list[Seat]:
    """The votes of one game that name a player."""
    return [vote for vote in game.votes().values() if vote not in (ABSTAIN, UNREADABLE)]
