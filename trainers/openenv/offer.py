"""The games that a server offers, and a game as one seat sees it, without the protocol.

Names from the wire only choose among the tasks and opponents that the server was started with: any other name would run
the client's code, or send the client's requests, from this machine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from threading import Lock
from typing import Any

from spy_env import (
    Document,
    Game,
    RewardRules,
    Rules,
    Seat,
    Stage,
    observe,
    player_seats,
    prompts_names,
    referee_seats,
)
from spy_env.seats import ROLES
from trainers.engines import Engine, Failed, Reply, Request, Sampling
from trainers.engines.players import ScriptedEngine
from trainers.prompt_budget import deal_to_fit
from trainers.rollout import SeatPolicies, answer_in_batches, play_once, sent
from trainers.settings import from_dict

MAX_SEATS = 100  # players or referees of a game that a client may ask for; our choice, far above any published one
MAX_ID = 255  # characters of a client's name for its document, as OpenEnv allows for an episode's
OPTIONS = ("task", "seat", "rules", "document", "opponents")


class OpponentsFailedError(RuntimeError):
    """The infrastructure gave no reply of another seat. Nothing was scored, and the game is unchanged."""


@dataclass(frozen=True, slots=True)
class SeatGame:
    """A game seen from ``seat``; ``seats`` play the other seats, all of a stage in one batch.

    Its rules are those of ``spy_env.seat_view``, with engines that can fail and prompts that must fit their models.
    """

    game: Game
    seat: Seat
    seats: SeatPolicies

    @property
    def prompt(self) -> str:
        """Everything the seat may know; empty when the game is over."""
        stage = self.game.stage
        return "" if stage is Stage.OVER else observe(self.game, stage)[self.seat]

    def replied(self, text: str) -> SeatGame:
        """Return the game after this seat's reply and the others' replies, at the seat's next turn or the end.

        Raises:
            ValueError: the game is over.
            OpponentsFailedError: another seat gave no reply.
        """
        if self.game.stage is Stage.OVER:
            raise ValueError("the game is over; reset deals the next one")
        engines = {**self.seats.others, self.seat: ScriptedEngine(lambda _: text)}
        game = _after_stage(self.game, replace(self.seats, others=engines))
        return replace(self, game=game).at_turn()

    def at_turn(self) -> SeatGame:
        """Return the game at this seat's next turn or the end, after stages in which the seat has nothing to do.

        Raises:
            OpponentsFailedError: another seat gave no reply.
        """
        game = self.game
        while game.stage is not Stage.OVER and self.seat not in game.waiting:
            game = _after_stage(game, self.seats)
        return replace(self, game=game)


def _after_stage(game: Game, seats: SeatPolicies) -> Game:
    turns = play_once(game, seats.budget)
    state = sent(turns, answer_in_batches(next(turns), seats))
    if isinstance(state, Failed):
        raise OpponentsFailedError(f"{state.reason}; nothing was scored, send the same again to go on")
    return state[0].game if isinstance(state, list) else state.game  # the next stage's prompts fit their budget


@dataclass(frozen=True, slots=True)
class Offer:
    """The choices that all sessions share. The first task and the first opponent are the defaults."""

    documents: Mapping[str, Sequence[Document]]  # by task
    opponents: Mapping[str, Engine]  # by name, safe to ask from several threads
    rules: Rules
    rewards: RewardRules
    sampling: Mapping[Stage, Sampling]
    max_len: int | None  # prompt and reply of a local model, in tokens
    max_text: int  # characters of a reply or a document

    def deal(self, options: Mapping[str, Any], chance: Random) -> SeatGame:
        """Deal the game that a reset's options describe, and play it to the seat's first turn.

        Options that are missing or None take the server's defaults. Chance is spent as in ``spy_v0``: one seed deals
        the same game through both.

        Raises:
            ValueError: an option is unknown, isn't offered, or describes no playable game.
            OpponentsFailedError: another seat gave no reply.
        """
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise ValueError(f"no options {unknown!a:.100}; reset takes seed, episode_id, {', '.join(OPTIONS)}")
        task = _choice("task", options.get("task"), self.documents)
        rules = self._rules(options.get("rules"))
        referees = referee_seats(rules.referees) if rules.voters == "referees" else ()
        seats = [*player_seats(rules.players), *referees]
        seat = _choice("seat", options.get("seat"), seats)
        given_document = self._document(options.get("document"))
        policies = self._policies(options.get("opponents"), seats)
        seed = f"{chance.getrandbits(64):016x}"
        document = given_document or chance.choice(self.documents[task])
        return SeatGame(deal_to_fit(document, task, rules, seed, None, policies.budget), seat, policies).at_turn()

    def _rules(self, changes: Any) -> Rules:
        if changes is None:
            return self.rules
        try:
            row = asdict(self.rules) | changes if isinstance(changes, dict) else changes
            rules: Rules = from_dict(Rules, row, "reset", "rules")
        except ValueError as error:
            raise ValueError(str(error)[:500]) from error  # it repeats the client's values, however long
        if (most := max(rules.players, rules.referees)) > MAX_SEATS:
            raise ValueError(f"rules ask for {most!a:.100} players or referees; ask for at most {MAX_SEATS}")
        offered = dict.fromkeys((*prompts_names(), self.rules.prompts))  # a client must not name files of ours
        _choice("prompts", rules.prompts, offered)
        return rules

    def _document(self, document: Any) -> Document | None:
        if document is None:
            return None
        row = {"id": "given", "text": document} if isinstance(document, str) else document
        if not isinstance(row, dict) or set(row) != {"id", "text"}:
            raise ValueError(f"document is {document!a:.100}; give its text, or an object with id and text")
        text = check_text("the document", row["text"], self.max_text)
        return Document(check_text("the document's id", row["id"], MAX_ID), text)

    def _policies(self, opponents: Any, seats: Sequence[Seat]) -> SeatPolicies:
        by_seat = opponents if isinstance(opponents, dict) else {}
        everyone = None if isinstance(opponents, dict) else opponents
        if wrong := sorted(set(by_seat) - {*seats, *ROLES}):
            raise ValueError(f"opponents for {wrong!a:.100}; name seats ({seats}) or roles ({list(ROLES)})")
        engine, *engines = (
            self.opponents[_choice("opponent", name, self.opponents)] for name in (everyone, *by_seat.values())
        )
        return SeatPolicies(engine, self.sampling, self.max_len, dict(zip(by_seat, engines, strict=True)))


def check_text(name: str, text: Any, limit: int) -> str:
    """Return the text if the server takes it.

    Raises:
        ValueError: it isn't text, or too long.
    """
    if not isinstance(text, str):
        raise ValueError(f"{name} is {type(text).__name__} {text!a:.100}; give text")
    if len(text) > limit:
        raise ValueError(f"{name} has {len(text)} characters; give at most {limit}")
    return text


def _choice(name: str, value: Any, choices: Collection[str]) -> str:
    if value is None:
        return next(iter(choices))
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"no {name} {value!a:.100} here; choose one of {list(choices)}")
    return value


class OneAtATime:
    """An engine that isn't made for threads, behind a lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._lock = engine, Lock()

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        with self._lock:
            return self._engine.generate(requests)

    def count_tokens(self, prompt: str, prefill: str) -> int:
        with self._lock:
            return self._engine.count_tokens(prompt, prefill)
