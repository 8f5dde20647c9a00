"""The asynchronous twin of ``rollout``, for trainers that ask for one sample a call: concurrent calls meet at a table.

The calls of a prompt take its places. When the last has come the table plays, and every call leaves with one result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from spy_env import Game, Stage
from trainers.engines import Failed, Reply, Request, Sampling
from trainers.prompt_budget import Room
from trainers.rollout import RETRIES, STAGES, GamesFailedError, Played, advance, ready_for, requests_of

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


async def play_games(games: Sequence[Game], room: Room, generate: Generate) -> list[Played]:
    """Play dealt games to their end, each in two waves: all performances at once, then all votes.

    No game waits for another. One that the infrastructure fails is played again from the same deal, ``RETRIES`` times
    at most.

    Raises:
        GamesFailedError: a game failed too often; the others are then given up.
    """
    return await together(play_game(game, room, generate) for game in games)


async def play_game(game: Game, room: Room, generate: Generate) -> Played:
    """Play one dealt game to its end.

    Raises:
        GamesFailedError: the infrastructure failed it too often.
    """
    reason = ""
    for _ in range(1 + RETRIES):
        result = await _play_once(game, room, generate)
        if isinstance(result, Played):
            return result
        reason = result.reason
    raise GamesFailedError([(game, reason)])


async def _play_once(game: Game, room: Room, generate: Generate) -> Played | Failed:
    played = Played(game, {})
    for stage in STAGES:
        ready = ready_for(played, stage, room)
        after = advance(ready, stage, await _wave(ready.game, stage, room.sampling, generate))
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
