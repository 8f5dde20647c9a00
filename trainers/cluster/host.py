"""Brings the calls of a row to a table, has its games played, and gives each call its sample, as its trainer takes it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from spy_env import RewardRules, Stage
from trainers.cluster.dealing import Place, deal_games, places_of
from trainers.cluster.director import Assigned, Direction
from trainers.cluster.invitation import EVAL, Invitation, RunSettings
from trainers.cluster.table import Table, play_games
from trainers.engines import Failed, Reader, Reply, Request
from trainers.prompt_budget import Room
from trainers.rollout import Played
from trainers.samples import samples_of

MEETING_S = 60.0  # our choice: trainers make a row's calls in one go
T = TypeVar("T")


class CalledEngine(Reader, Protocol):
    """An engine that is asked for one reply at a time, and batches by itself."""

    async def generate(self, request: Request) -> Reply | Failed:
        """One reply."""


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """How a trainer takes a sample: ``trained`` is given the finished advantage."""

    trained: Callable[[Played, Place, float, RewardRules], T]
    evaluated: Callable[[Played, Place, RewardRules], T]


class Host(Generic[T]):
    """The tables of one process. Not safe between threads: all calls come in one event loop."""

    def __init__(self, direction_of: Callable[[RunSettings], Awaitable[Direction]], answers: Answers[T]) -> None:
        """``direction_of`` finds the director of a run."""
        self._direction_of, self._answers = direction_of, answers
        self._direction: asyncio.Task[Direction] | None = None
        self._filling: dict[str, Table[T]] = {}
        self._dealing = asyncio.Lock()

    async def join(
        self, text: str, arrive: Callable[[], tuple[Invitation, CalledEngine]], step: int | None = None
    ) -> T:
        """One sample of a row: the k-th call that comes gets the k-th place.

        ``arrive`` is called for the first of a row's calls: what its text says, and the engine that plays. ``step`` is the
        trainer's, where it tells.

        Raises:
            ValueError: the row or the trainer's settings are not those of a prepared run.
            TimeoutError, GamesFailedError: the row could not be played; all of its calls are told.
        """
        table = self._filling.get(text)  # a trainer makes a row's calls in one go, so no other row's come between them
        if table is None or not table.open:
            invitation, engine = arrive()
            table = Table(invitation.samples, partial(self._play, invitation, engine, step), MEETING_S)
            self._filling[text] = table
        try:
            return await table.join()
        finally:
            if self._filling.get(text) is table and not table.open:
                del self._filling[text]

    async def _play(self, invitation: Invitation, engine: CalledEngine, step: int | None) -> list[T]:
        direction = await self._joined(invitation.run)
        if invitation.split == EVAL:
            return await self._evaluate(invitation, engine, direction)
        assigned = await direction.begin(invitation.seed)
        try:
            if step is not None and step != assigned.iteration:
                raise ValueError(
                    f"the trainer is at step {step} and the director at iteration {assigned.iteration}: rows of an iteration "
                    "were dropped, or the trainer resumed from another checkpoint than its folder names last"
                )
            return await self._train(invitation, engine, direction, assigned)
        except BaseException:
            with contextlib.suppress(Exception):  # what went wrong first is what the calls are told
                await direction.give_up(invitation.seed)
            raise

    async def _joined(self, run: RunSettings) -> Direction:
        """The director, found once however many tables ask at a time; where it wasn't, the next asks again."""
        if self._direction is None or (self._direction.done() and self._direction.exception()):
            self._direction = asyncio.ensure_future(self._direction_of(run))
        return await asyncio.shield(self._direction)

    async def _train(
        self, invitation: Invitation, engine: CalledEngine, direction: Direction, assigned: Assigned
    ) -> list[T]:
        curriculum = assigned.curriculum
        played = await self._played(invitation, assigned.iteration, curriculum.stage, engine)
        games = [one.game for one in played]
        worth = curriculum.advantages(games, curriculum.stage)
        answers = [
            self._answers.trained(
                played[place.game], place, worth.get((games[place.game].seed, place.seat), 0.0), curriculum.rewards
            )
            for place in places_of(games, curriculum.stage, invitation.samples)
        ]
        samples = samples_of(played, curriculum.stage, curriculum.rewards)
        await direction.finish(
            invitation.seed, games, [replace(sample, prompt_ids=(), logprobs=()) for sample in samples]
        )
        return answers

    async def _evaluate(self, invitation: Invitation, engine: CalledEngine, direction: Direction) -> list[T]:
        played = await self._played(invitation, 0, None, engine)
        games = [one.game for one in played]
        await direction.evaluated(invitation.seed, games)
        places = places_of(games, None, invitation.samples)
        return [self._answers.evaluated(played[place.game], place, invitation.run.start.rewards) for place in places]

    async def _played(
        self, invitation: Invitation, iteration: int, stage: Stage | None, engine: CalledEngine
    ) -> list[Played]:
        """The games of a row. Long documents take a while to fit, in which the engine works on the rows before."""
        room = Room([engine], invitation.run.sampling, invitation.run.max_len)
        async with self._dealing:
            dealt = await asyncio.to_thread(deal_games, invitation, iteration, stage, room)
        return await play_games(dealt, room, engine.generate)
