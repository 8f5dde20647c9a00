"""The calls of a row meet, their games are played, and each call leaves with its sample, as its trainer takes it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from spy_env import Game, RewardRules, Stage
from trainers.cluster.coordinator import Assigned, Direction
from trainers.cluster.prompt_rows import EVAL, Invitation, Place, RunSettings, deal_games, places_of
from trainers.engines import Failed, Reader, Reply, Request, Sampling
from trainers.prompt_budget import PromptBudget
from trainers.rollout import RETRIES, STAGES, GamesFailedError, Played, advance, ready_for, requests_of
from trainers.samples import samples_of

T = TypeVar("T")
Generate = Callable[[Request], Awaitable[Reply | Failed]]
"""One reply from an engine that batches by itself what is asked at the same time."""


class Table(Generic[T]):
    """Where the calls of one prompt meet. ``play`` makes a result for each, in the order in which they came.

    What ``play`` raises, every call raises. When no call is left waiting (all were cancelled), the play is cancelled.
    """

    def __init__(self, places: int, play: Callable[[], Awaitable[Sequence[T]]], patience_s: float) -> None:
        """A table for ``places`` calls that waits at most ``patience_s`` seconds from the first to the last of them."""
        self._places, self._play, self._patience = places, play, patience_s
        self._taken, self._waiting, self._left = 0, 0, False
        self._all_here = asyncio.Event()
        self._played: asyncio.Task[Sequence[T]] = asyncio.create_task(self._meet_and_play())

    @property
    def open(self) -> bool:
        """Whether another call can take a place."""
        return self._taken < self._places and not self._left and not self._played.done()

    async def join(self) -> T:
        """Take the next place and wait for its result.

        Raises:
            TimeoutError: not all came in time.
            RuntimeError: no place is free, or all that were taken have been left.
        """
        if not self.open:
            raise RuntimeError(f"all {self._places} places of the table are taken, or it has been left")
        place, self._taken = self._taken, self._taken + 1
        if self._taken == self._places:
            self._all_here.set()
        self._waiting += 1
        try:
            return (await asyncio.shield(self._played))[place]
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._left = True
                self._played.cancel()  # does nothing where it is over

    async def _meet_and_play(self) -> Sequence[T]:
        try:
            await asyncio.wait_for(self._all_here.wait(), self._patience)
        except TimeoutError:
            raise TimeoutError(
                f"{self._taken} of the {self._places} calls that play together came within {self._patience:g} s; the trainer "
                f"must ask for {self._places} samples of this prompt at once"
            ) from None
        results = await self._play()
        if len(results) != self._places:
            raise RuntimeError(f"{len(results)} results for {self._places} calls")
        return results


async def play_games(games: Sequence[Game], budget: PromptBudget, generate: Generate) -> list[Played]:
    """Play dealt games to their end, each in two waves: all performances at once, then all votes.

    No game waits for another. One that the infrastructure fails is played again from the same deal, ``RETRIES`` times
    at most.

    Raises:
        GamesFailedError: a game failed too often; the others are then given up.
    """
    return await together(play_game(game, budget, generate) for game in games)


async def play_game(game: Game, budget: PromptBudget, generate: Generate) -> Played:
    """Play one dealt game to its end.

    Raises:
        GamesFailedError: the infrastructure failed it too often.
    """
    reason = ""
    for _ in range(1 + RETRIES):
        result = await _play_once(game, budget, generate)
        if isinstance(result, Played):
            return result
        reason = result.reason
    raise GamesFailedError([(game, reason)])


async def _play_once(game: Game, budget: PromptBudget, generate: Generate) -> Played | Failed:
    played = Played(game, {})
    for stage in STAGES:
        ready = ready_for(played, stage, budget)
        after = advance(ready, stage, await _wave(ready.game, stage, budget.sampling, generate))
        if isinstance(after, Failed):
            return after
        played = after
    return played


async def _wave(
    game: Game, stage: Stage, sampling: Mapping[Stage, Sampling], generate: Generate
) -> dict[str, Reply | Failed]:
    requests = requests_of(game, stage, sampling[stage])
    return dict(zip(requests, await together(_asked(generate, request) for request in requests.values()), strict=True))


async def _asked(generate: Generate, request: Request) -> Reply | Failed:
    return await generate(request)


async def together(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all, in order. The first that raises ends the others, and so does being cancelled."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


MEETING_S = 60.0  # our choice: trainers make a row's calls in one go


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
        budget = PromptBudget([engine], invitation.run.sampling, invitation.run.max_len)
        async with self._dealing:
            dealt = await asyncio.to_thread(deal_games, invitation, iteration, stage, budget)
        return await play_games(dealt, budget, engine.generate)
