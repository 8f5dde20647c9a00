"""A game as far as it has been played, seen from one seat; engines play the others, a stage's seats in one batch.

The rules are those of ``spy_env.seat_view``. It stands apart from it because engines can fail, and need seeds and room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock

from spy_env import Game, Seat, Stage, observe
from trainers.engines import Engine, Failed, Reply, Request
from trainers.engines.players import ScriptedEngine
from trainers.rollout import Played, Seating, play_stage, ready_for


class OpponentsFailedError(RuntimeError):
    """The infrastructure gave no reply of another seat. Nothing was scored, and the game stands where it stood."""


@dataclass(frozen=True, slots=True)
class SeatGame:
    """``seating`` plays every seat but ``seat``. A reply gives the next state; a failure leaves this one to try again."""

    played: Played
    seat: Seat
    seating: Seating

    @property
    def game(self) -> Game:
        """The record so far."""
        return self.played.game

    @property
    def prompt(self) -> str:
        """All that the seat is told; empty when the game is over."""
        stage = self.game.stage
        return "" if stage is Stage.OVER else observe(self.game, stage)[self.seat]

    def replied(self, text: str) -> SeatGame:
        """The game after this seat's reply, played on to its next turn or to the end.

        Raises:
            ValueError: the game is over.
            OpponentsFailedError: another seat gave no reply.
        """
        if self.game.stage is Stage.OVER:
            raise ValueError("the game is over; reset deals the next one")
        spoken = ScriptedEngine(lambda _: text)
        seating = replace(self.seating, others={**self.seating.others, self.seat: spoken})
        return _to_next_turn(replace(self, played=_stage_played(self.played, seating)))


def begin(game: Game, seat: Seat, seating: Seating) -> SeatGame:
    """A dealt game, played to this seat's first turn.

    Raises:
        OpponentsFailedError: another seat gave no reply.
    """
    return _to_next_turn(SeatGame(Played(game, {}), seat, seating))


def _to_next_turn(now: SeatGame) -> SeatGame:
    while now.game.stage is not Stage.OVER and now.seat not in now.game.waiting:
        now = replace(now, played=_stage_played(now.played, now.seating))
    if now.game.stage is Stage.DETECTION:  # its prompt is written in the room that the others' readers have
        now = replace(now, played=ready_for(now.played, Stage.DETECTION, now.seating.budget))
    return now


def _stage_played(played: Played, seating: Seating) -> Played:
    (after,) = play_stage([played], played.game.stage, seating)
    if isinstance(after, Failed):
        raise OpponentsFailedError(f"{after.reason}; nothing was scored, send the same again to go on")
    return after


class OneAtATime:
    """An engine that isn't made for threads, behind a lock."""

    def __init__(self, engine: Engine) -> None:
        """Guard ``engine``."""
        self._engine, self._lock = engine, Lock()

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """As the engine does, when it is free."""
        with self._lock:
            return self._engine.generate(requests)

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """As the engine does."""
        with self._lock:
            return self._engine.count_tokens(prompt, prefill)
