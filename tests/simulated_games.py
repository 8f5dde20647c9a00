"""Games by chance alone: all players write alike and voters guess, until something is planted in what spies write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from spy_env import Document, Game, RawReply, Rules, deal

NOUNS = [
    "mill",
    "river",
    "harvest",
    "tower",
    "council",
    "bridge",
    "engine",
    "market",
    "school",
    "harbour",
    "winter",
    "ledger",
    "orchard",
    "railway",
    "museum",
]
VERBS = ["opened", "closed", "burned", "flooded", "moved", "expanded", "failed", "recovered"]
HANZI = "山水火木金土日月天地人王子女大小上下中外东西南北春夏秋冬风雨"

Writer = Callable[[str, Random], str]


def sentence(rng: Random) -> str:
    """A statement of a few words."""
    return f"The {rng.choice(NOUNS)} of {rng.choice(NOUNS)} {rng.randint(2, 99)} {rng.choice(VERBS)} after the {rng.choice(NOUNS)}."


def english(number: int) -> Document:
    """Six statements."""
    rng = Random(f"document/{number}")
    return Document(f"d{number}", " ".join(sentence(rng) for _ in range(6)))


def chinese(number: int) -> Document:
    """Six statements of ten characters."""
    rng = Random(f"document/{number}")
    return Document(f"d{number}", "".join("".join(rng.choices(HANZI, k=10)) + "。" for _ in range(6)))


def told(document: str, rng: Random) -> str:
    """Some of the statements of a document and some that it doesn't make."""
    parts = [
        part
        for part in document.replace("。", "。 ").replace(". ", ".  ").split(" " * (2 - ("。" in document)))
        if part
    ]
    return " ".join(rng.sample(parts, rng.randint(1, 3)) + [sentence(rng)] * rng.randint(0, 1))


def unchanged(text: str, rng: Random) -> str:
    """A spy that writes as civilians do."""
    return text


def games(
    count: int,
    seed: int = 0,
    spy_writes: Writer = unchanged,
    right: float = 0.3,
    document_of: Callable[[int], Document] = english,
    players: int = 4,
) -> Iterator[Game]:
    """Games that are over; a vote names the spy with chance ``right``, else a player at random."""
    for number in range(count):
        rng = Random(f"{seed}/{number}/said")
        game = deal(document_of(number), "summarization", Rules(players=players), f"{seed}/{number}")
        texts = {seat: told(game.document.text, rng) for seat in game.players}
        texts[game.spy] = spy_writes(texts[game.spy], rng)
        game = game.with_replies({seat: RawReply(f"Summary: {text}") for seat, text in texts.items()})
        voted = {seat: game.spy if rng.random() < right else rng.choice(game.players) for seat in game.voters}
        yield game.with_replies({seat: RawReply(rf"\boxed{{{vote[-1]}}}") for seat, vote in voted.items()})
