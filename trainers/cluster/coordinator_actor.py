"""The director in a Ray cluster: one named actor a job, which outlives each engine and ends after the last of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import ray

from spy_env import Game
from spy_env.records import from_json, to_json
from trainers.cluster.coordinator import Assigned, Director
from trainers.cluster.prompt_rows import RunSettings
from trainers.samples import Sample

NAMESPACE = "spyrl"
ANSWER_S = 300.0  # our choice: an actor's process starts in seconds, but on a busy node in minutes
WATCH_S = 10.0  # seconds between looks at the engines
T = TypeVar("T")


class DirectorActor:
    """The director behind Ray's calls. Games travel as records."""

    def __init__(self) -> None:
        """Without a run; the first engine that joins brings it, so that what is wrong with it is told as an answer."""
        self._director: Director | None = None
        self._engines: dict[str, Any] = {}
        self._watch: asyncio.Task[None] | None = None

    async def join(self, run: RunSettings, engine: str, handle: Any) -> None:
        """An engine takes part in a run.

        Raises:
            ValueError: the run can't begin or go on, or it isn't the one that this job plays.
        """
        self._engines[engine] = handle
        if self._watch is None:  # first of all: nobody else ends a director whose run can't begin
            self._watch = asyncio.create_task(self._end_after_the_engines())
        if self._director is None:
            self._director = Director(run)
        if self._director.run != run:
            raise ValueError(
                f"this job plays the run in {self._director.run.folder} with other settings than a row for {run.folder} "
                "says; prepare one prompt data set with one command"
            )

    async def begin(self, seed: str, engine: str) -> Assigned:
        """See ``Director.begin``.

        Raises:
            ValueError: also where a living engine plays or has played this row in the open iteration.
        """
        former = self._run.engine_of(seed)
        if former and not await self._dead(former):
            raise ValueError(
                f"row {seed!r} came twice in iteration {self._run.iteration}; every row of the prompt data set must have a "
                "seed of its own, as spyrl openrlhf and spyrl verl write them"
            )
        return self._run.begin(seed, engine)

    async def finish(self, seed: str, engine: str, games: Sequence[str], samples: Sequence[Sample]) -> None:
        """See ``Director.finish``."""
        self._run.finish(seed, engine, [from_json(game) for game in games], samples)

    async def give_up(self, seed: str, engine: str) -> None:
        """See ``Director.give_up``."""
        self._run.give_up(seed, engine)

    async def evaluated(self, seed: str, games: Sequence[str]) -> None:
        """See ``Director.evaluated``."""
        self._run.evaluated(seed, [from_json(game) for game in games])

    @property
    def _run(self) -> Director:
        if self._director is None:
            raise RuntimeError("no engine has joined")
        return self._director

    async def _dead(self, engine: str) -> bool:
        """Whether an engine is gone; one that doesn't answer at once, or can't be reached just now, lives."""
        try:
            await asyncio.wait_for(_awaited(self._engines[engine].__ray_ready__.remote()), WATCH_S)
        except (TimeoutError, ray.exceptions.ActorUnavailableError):
            return False
        except ray.exceptions.RayActorError:
            return True
        return False

    async def _end_after_the_engines(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            if all([await self._dead(engine) for engine in list(self._engines)]):
                ray.kill(ray.get_runtime_context().current_actor)


class JobDirector:
    """The director of this job, as an engine of it asks."""

    def __init__(self, actor: Any, engine: str) -> None:
        """``actor`` is a ``DirectorActor``'s handle, ``engine`` the id of the actor that asks."""
        self._actor, self._engine = actor, engine

    @classmethod
    async def of_this_job(cls, run: RunSettings) -> JobDirector:
        """Find the director, or start it. Its name is the job's, so that no other job takes it.

        Raises:
            ValueError: the run can't begin or go on.
        """
        here = ray.get_runtime_context()
        actor: Any = ray.remote(DirectorActor)
        handle = actor.options(
            name=f"director-{here.get_job_id()}",
            namespace=NAMESPACE,
            get_if_exists=True,
            lifetime="detached",  # else it would end with the engine that started it
            num_cpus=0,
        ).remote()
        director = cls(handle, here.get_actor_id())
        await director._told(handle.join.remote(run, here.get_actor_id(), here.current_actor), "to join")
        return director

    async def begin(self, seed: str) -> Assigned:
        """Count a row, and hear what it is played for."""
        return await self._told(self._actor.begin.remote(seed, self._engine), "to begin")

    async def finish(self, seed: str, games: Sequence[Game], samples: Sequence[Sample]) -> None:
        """Hand in a row's games."""
        await self._told(self._actor.finish.remote(seed, self._engine, [*map(to_json, games)], samples), "to finish")

    async def give_up(self, seed: str) -> None:
        """Tell that a row can't be played to its end here."""
        await self._told(self._actor.give_up.remote(seed, self._engine), "to give up")

    async def evaluated(self, seed: str, games: Sequence[Game]) -> None:
        """Hand in the games of an evaluation row."""
        await self._told(self._actor.evaluated.remote(seed, [*map(to_json, games)]), "to evaluate")

    async def _told(self, answer: Any, what: str) -> Any:
        try:
            return await asyncio.wait_for(_awaited(answer), ANSWER_S)
        except TimeoutError:
            raise TimeoutError(f"the director did not answer when asked {what} within {ANSWER_S:g} s") from None


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
