"""A game as judges of performances see it: each player's text, and its copy of the document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spy_env.game import Game, Stage
from spy_env.masking import hide
from spy_env.seats import Seat

Shown = Mapping[Seat, str]


def over(games: Iterable[Game]) -> list[Game]:
    """Keep the finished games, in order."""
    return [game for game in games if game.stage is Stage.OVER]


def first_of_each_seed(games: Iterable[Game]) -> list[Game]:
    """Keep the finished games that are the first of their seed, since the spy of a second one is known."""
    first: dict[str, Game] = {}
    for game in over(games):
        first.setdefault(game.seed, game)
    return list(first.values())


def shown(game: Game) -> dict[Seat, str]:
    """Return each player's performance, as far as the ballot shows it."""
    return {seat: said.text[: game.shown_characters.get(seat)] for seat, said in game.performances().items()}


def copies(game: Game) -> dict[str, str]:
    """Return the document by role: the spy's copy is masked."""
    text = game.document.text
    return {"spy": hide(text, game.hidden, game.rules.operator), "civilian": text}


def seen_and_hidden(game: Game) -> tuple[str, str]:
    """Split the document into the text that the spy saw and the text that it didn't."""
    text, seen, unseen, position = game.document.text, [], [], 0
    for span in game.hidden:
        seen.append(text[position : span.start])
        unseen.append(text[span.start : span.end])
        position = span.end
    return "\n".join([*seen, text[position:]]), "\n".join(unseen)


def detector_share(game: Game) -> float:
    """Return the share of the trained voters' votes that name the spy: the model's accuracy in one game."""
    votes = game.votes()
    return sum(votes[seat] == game.spy for seat in game.trained_voters) / len(game.trained_voters)
