"""Games that are over, made by hand: who the spy is, what is hidden, what each player wrote and how each voted."""

from collections.abc import Sequence
from dataclasses import replace

from spy_env import Document, Game, RawReply, Rules, deal
from spy_env.masking import Span

TEXT = "The mill at Orrin burned on 3 May. Nobody was hurt, and 40 sacks of rye were lost."


def played(
    votes: str, texts: Sequence[str] = ("A mill burned.",) * 5, seed: str = "1", spy: str = "player_1", text: str = TEXT,
    hidden: str = "40 sacks of rye", task: str = "summarization", **rules: object,
) -> Game:  # fmt: skip
    """One number, ``N/A`` or ``?`` for each voter; ``hidden`` is what the spy didn't see."""
    game = deal(Document("d", text), task, Rules(**{"players": len(texts), **rules}), seed)
    at = text.find(hidden)
    game = replace(game, spy=spy, hidden=(Span(at, at + len(hidden)),) if hidden else ())
    mark = {"summarization": "Summary:", "creative_writing": "Story:"}[task]
    game = game.with_replies({s: RawReply(f"{mark} {said}") for s, said in zip(game.players, texts, strict=True)})
    said = zip(game.voters, votes.split(), strict=True)
    return game.with_replies({seat: RawReply(rf"\boxed{{{vote}}}") for seat, vote in said})
