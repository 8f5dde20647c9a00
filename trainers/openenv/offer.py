"""What a server offers to all its sessions, and how a reset asks for a game of it.

Names from the wire only choose among what the server was started with: a task, a model or an endpoint that a client could
name freely would be the client's code and the client's requests on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from spy_env import Document, RewardRules, Rules, Seat, Stage, player_seats, referee_seats
from trainers.engines import Engine, Sampling
from trainers.openenv.seat_game import SeatGame, begin
from trainers.prompt_budget import deal_to_fit
from trainers.rollout import Seating
from spy_env.seats import ROLES
from trainers.settings import from_dict

MAX_SEATS = 100  # players or referees of a game that a client may ask for; our choice, far above any published one


@dataclass(frozen=True, slots=True)
class Offer:
    """Made once, shared by all sessions, never changed. The first task and the first opponent are the default."""

    documents: Mapping[str, Sequence[Document]]  # by task
    opponents: Mapping[str, Engine]  # by name, safe to ask from several threads
    rules: Rules
    rewards: RewardRules
    sampling: Mapping[Stage, Sampling]
    max_len: int | None  # prompt and reply of a local model, in tokens
    max_text: int  # characters of a reply or a document


@dataclass(frozen=True, slots=True)
class Wish:
    """The game that a reset asks for. None stands for: drawn."""

    task: str
    rules: Rules
    seat: Seat
    document: Document | None
    seating: Seating


def read_wish(options: Mapping[str, Any], offer: Offer) -> Wish:
    """The game that a reset's options describe; what they don't say is the server's.

    Raises:
        ValueError: an option that isn't known, isn't offered, or no game can have.
    """
    known = ("task", "seat", "rules", "document", "opponents")
    if unknown := sorted(set(options) - set(known)):
        raise ValueError(f"no options {_short(unknown)}; reset takes seed, episode_id, {', '.join(known)}")
    task = _offered("task", options.get("task"), offer.documents)
    rules = _rules(options.get("rules"), offer.rules)
    seats = [*player_seats(rules.players), *(referee_seats(rules.referees) if rules.voters == "referees" else ())]
    seat = options.get("seat", seats[0])
    if seat not in seats:
        raise ValueError(f"no seat {_short(seat)} in this game; choose one of {seats}")
    seating = _seating(options.get("opponents"), seats, offer)
    return Wish(task, rules, seat, _document(options.get("document"), offer.max_text), seating)


def deal_wish(wish: Wish, offer: Offer, chance: Random) -> SeatGame:
    """Deal it and play to the seat's first turn. Chance is spent as ``spy_v0`` does, so one seed deals one game in both.

    Raises:
        ValueError: the document can't be played.
        OpponentsFailedError: another seat gave no reply.
    """
    seed = f"{chance.getrandbits(64):016x}"
    document = wish.document or chance.choice(offer.documents[wish.task])
    game = deal_to_fit(document, wish.task, wish.rules, seed, None, wish.seating.budget)
    return begin(game, wish.seat, wish.seating)


def check_text(what: str, text: Any, limit: int) -> str:
    """Text of a length that is served.

    Raises:
        ValueError: it isn't text, or too long.
    """
    if not isinstance(text, str):
        raise ValueError(f"{what} is {type(text).__name__} {_short(text)}; give text")
    if len(text) > limit:
        raise ValueError(f"{what} has {len(text)} characters; this server takes at most {limit} (--max_text)")
    return text


def _rules(said: Any, default: Rules) -> Rules:
    if said is None:
        return default
    try:
        rules: Rules = from_dict(Rules, asdict(default) | said if isinstance(said, dict) else said, "rules")
    except ValueError as error:
        raise ValueError(str(error)[:500]) from error  # it repeats what was asked for
    if max(rules.players, rules.referees) > MAX_SEATS:
        asked = f"{_short(rules.players)} players and {_short(rules.referees)} referees"
        raise ValueError(f"rules ask for {asked}; at most {MAX_SEATS}")
    return rules


def _document(said: Any, limit: int) -> Document | None:
    if said is None:
        return None
    row = {"id": "given", "text": said} if isinstance(said, str) else said
    if not isinstance(row, dict) or set(row) != {"id", "text"}:
        raise ValueError(f"document is {_short(said)}; give its text, or an object with id and text")
    return Document(check_text("the document's id", row["id"], 255), check_text("the document", row["text"], limit))


def _seating(said: Any, seats: Sequence[Seat], offer: Offer) -> Seating:
    by_seat = said if isinstance(said, dict) else {}
    everyone = _offered("opponent", None if isinstance(said, dict) else said, offer.opponents)
    if wrong := sorted(set(by_seat) - set(seats) - set(ROLES)):
        raise ValueError(f"opponents for {_short(wrong)}; name seats ({seats}) or roles ({list(ROLES)})")
    others = {seat: offer.opponents[_offered("opponent", name, offer.opponents)] for seat, name in by_seat.items()}
    return Seating(offer.opponents[everyone], offer.sampling, offer.max_len, others)


def _offered(what: str, name: Any, offered: Mapping[str, Any]) -> str:
    if name is None:
        return next(iter(offered))
    if not isinstance(name, str) or name not in offered:
        raise ValueError(f"no {what} {_short(name)} is offered; choose one of {list(offered)}")
    return name


def _short(value: Any) -> str:
    """A value for an error, whatever its size and whatever is in it."""
    text = ascii(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
