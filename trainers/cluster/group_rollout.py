"""The calls of a prompt row meet, their games are played, and each call leaves with its sample, as its trainer takes it.

A trainer that asks for one sample per call makes as many calls of a row as its games have seats.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from spy_env import RewardRules, Stage
from trainers.cluster.coordinator import Assigned, CoordinatorClient
from trainers.cluster.prompt_rows import EVAL, PromptRow, RunSettings, Slot, deal_games, hits_of, slots_of
from trainers.prompt_budget import PromptBudget
from trainers.rollout import Played, play_game, together
from trainers.samples import samples_of

if TYPE_CHECKING:  # it needs torch
    from trainers.cluster.called_engine import CalledEngine

MEETING_S = 60.0  # our choice: trainers make a row's calls in one go
T = TypeVar("T")
AnswerOf = Callable[[Played, Slot, float, RewardRules], T]
"""A slot's reply as a trainer takes it, with the number to train on: its advantage, or in evaluations the game's hits."""


class GroupRollout(Generic[T]):
    """The rows that are played in one process. Not safe between threads: all calls come in one event loop."""

    def __init__(
        self, find_coordinator: Callable[[RunSettings], Awaitable[CoordinatorClient]], answer_of: AnswerOf[T]
    ) -> None:
        """``find_coordinator`` is called with the settings of the first row."""
        self._find_coordinator, self._answer_of = find_coordinator, answer_of
        self._coordinator: asyncio.Future[CoordinatorClient] | None = None
        self._meetings: dict[str, Meeting[T]] = {}
        self._dealing = asyncio.Lock()

    async def join(self, text: str, arrive: Callable[[], tuple[PromptRow, CalledEngine]], step: int | None = None) -> T:
        """Return one sample of a row: the k-th call that comes gets the k-th slot.

        ``arrive`` is called for the first of a row's calls and returns the row and the engine that plays it. ``step`` is
        the trainer's, where it names one.

        Raises:
            ValueError: the row or the trainer's settings are not those of a prepared run.
            TimeoutError, GamesFailedError: the row could not be played; every call of it raises this.
        """
        # A trainer makes a row's calls in one go, so an open meeting under this text is this row's.
        meeting = self._meetings.get(text)
        if meeting is None or not meeting.open:
            row, engine = arrive()
            meeting = Meeting(row.samples, partial(self._play, row, engine, step), MEETING_S)
            self._meetings[text] = meeting
        try:
            return await meeting.join()
        finally:
            # The last call to leave clears the place, unless the row has come again meanwhile.
            if self._meetings.get(text) is meeting and not meeting.open:
                del self._meetings[text]

    async def _play(self, row: PromptRow, engine: CalledEngine, step: int | None) -> list[T]:
        """Return the samples of a row, one per call."""
        coordinator = await self._joined(row.run)
        # An evaluation row belongs to no iteration.
        if row.split == EVAL:
            return await self._evaluate(row, engine, coordinator)
        # A training row is counted before it is played, and the coordinator decides its stage.
        assigned = await coordinator.begin(row.seed)
        try:
            if step is not None and step != assigned.iteration:
                raise ValueError(
                    f"the trainer is at step {step} and the coordinator at iteration {assigned.iteration}: rows of an "
                    "iteration were dropped, or the trainer resumed from another checkpoint than its folder names last"
                )
            return await self._train(row, engine, coordinator, assigned)
        except BaseException:
            # The row may begin again. Whatever happens here, the calls raise the first error.
            with contextlib.suppress(Exception):
                await coordinator.give_up(row.seed)
            raise

    async def _joined(self, run: RunSettings) -> CoordinatorClient:
        """Find the coordinator once, however many rows ask at a time; after an error the next row asks again."""
        if self._coordinator is None or (self._coordinator.done() and self._coordinator.exception()):
            self._coordinator = asyncio.ensure_future(self._find_coordinator(run))
        return await asyncio.shield(self._coordinator)  # a row that is cancelled doesn't end the others' search

    async def _train(
        self, row: PromptRow, engine: CalledEngine, coordinator: CoordinatorClient, assigned: Assigned
    ) -> list[T]:
        # Play all games of the row to their end.
        curriculum = assigned.curriculum
        played = await self._played(row, assigned.iteration, curriculum.stage, engine)
        games = [one.game for one in played]
        # One sample per call: advantages by (game, seat) of the trained replies, 0 for the others.
        advantages = curriculum.advantages(games, curriculum.stage)
        samples = [
            self._answer_of(
                played[slot.game], slot, advantages.get((games[slot.game].seed, slot.seat), 0.0), curriculum.rewards
            )
            for slot in slots_of(games, curriculum.stage, row.samples)
        ]
        # The row counts from here on. The coordinator's metrics need neither prompts nor log-probabilities.
        trained = samples_of(played, curriculum.stage, curriculum.rewards)
        await coordinator.finish(row.seed, games, [replace(sample, prompt_ids=(), logprobs=()) for sample in trained])
        return samples

    async def _evaluate(self, row: PromptRow, engine: CalledEngine, coordinator: CoordinatorClient) -> list[T]:
        played = await self._played(row, 0, None, engine)
        games = [one.game for one in played]
        await coordinator.evaluated(row.seed, games)
        return [
            self._answer_of(played[slot.game], slot, hits_of(games[slot.game]), row.run.start.rewards)
            for slot in slots_of(games, None, row.samples)
        ]

    async def _played(self, row: PromptRow, iteration: int, stage: Stage | None, engine: CalledEngine) -> list[Played]:
        budget = PromptBudget([engine], row.run.sampling, row.run.max_len)
        # Long documents take a while to fit: one row deals at a time, in a thread, while the engine plays the rows before.
        async with self._dealing:
            games = await asyncio.to_thread(deal_games, row, iteration, stage, budget)
        # No game waits for another; one that can't be played ends the others.
        return await together(play_game(game, budget, engine.generate) for game in games)


class Meeting(Generic[T]):
    """Where the calls of one row meet. ``play`` makes a result for each, in the order in which they came.

    An error of ``play`` is raised by every call. When no call is left waiting (all were cancelled), the play is cancelled.
    """

    def __init__(self, calls: int, play: Callable[[], Awaitable[Sequence[T]]], patience_s: float) -> None:
        """Wait for ``calls`` calls, at most ``patience_s`` seconds from the first to the last of them."""
        self._calls, self._play, self._patience = calls, play, patience_s
        self._come, self._waiting, self._left = 0, 0, False
        self._all_here = asyncio.Event()
        self._results: asyncio.Task[Sequence[T]] = asyncio.create_task(self._meet_and_play())

    @property
    def open(self) -> bool:
        """Whether another call can join."""
        return self._come < self._calls and not self._left and not self._results.done()

    async def join(self) -> T:
        """Join as the next call, and wait for its result.

        Raises:
            TimeoutError: not all came in time.
            RuntimeError: all calls have come, or all that came have left.
        """
        if not self.open:
            raise RuntimeError(f"all {self._calls} calls have come, or all that came have left")
        # The order of coming is the order of results.
        number, self._come = self._come, self._come + 1
        if self._come == self._calls:
            self._all_here.set()
        # The play is shared: a cancelled call leaves it running for the others, and the last to leave ends it.
        self._waiting += 1
        try:
            return (await asyncio.shield(self._results))[number]
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._left = True
                self._results.cancel()  # does nothing where it is over

    async def _meet_and_play(self) -> Sequence[T]:
        try:
            await asyncio.wait_for(self._all_here.wait(), self._patience)
        except TimeoutError:
            raise TimeoutError(
                f"{self._come} of the {self._calls} calls that play together came within {self._patience:g} s; the trainer "
                f"must ask for {self._calls} samples of this prompt at once"
            ) from None
        results = await self._play()
        if len(results) != self._calls:
            raise RuntimeError(f"{len(results)} results for {self._calls} calls")
        return results
