"""The coordinator in a Ray cluster: one named actor per job, which outlives each engine and ends after the last of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import ray

from spy_env import Game
from spy_env.records import from_json, to_json
from trainers.cluster.coordinator import Assigned, Coordinator
from trainers.cluster.prompt_rows import RunSettings
from trainers.samples import Sample

NAMESPACE = "spyrl"
ANSWER_S = 300.0  # our choice: an actor's process starts in seconds, but on a busy node in minutes
WATCH_S = 10.0  # seconds between looks at the engines
T = TypeVar("T")


class CoordinatorActor:
    """The coordinator behind Ray's calls. Games travel as records."""

    def __init__(self) -> None:
        """Start without a run. The first engine that joins brings it, and hears of an error in it as the answer."""
        self._coordinator: Coordinator | None = None
        self._engines: dict[str, Any] = {}
        self._watch: asyncio.Task[None] | None = None

    async def join(self, run: RunSettings, engine: str, handle: Any) -> None:
        """Let an engine take part in a run.

        Raises:
            ValueError: the run can't begin or go on, or it isn't the one that this job plays.
        """
        self._engines[engine] = handle
        # The watch comes first: where the run can't begin, nothing else would end this actor.
        if self._watch is None:
            self._watch = asyncio.create_task(self._end_after_the_engines())
        if self._coordinator is None:
            self._coordinator = Coordinator(run)
        if self._coordinator.run != run:
            raise ValueError(
                f"this job plays the run in {self._coordinator.run.folder}, and a row of {run.folder} has other settings; "
                "prepare one prompt data set with one command"
            )

    async def begin(self, seed: str, engine: str) -> Assigned:
        """See ``Coordinator.begin``.

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
        """See ``Coordinator.finish``."""
        self._run.finish(seed, engine, [from_json(game) for game in games], samples)

    async def give_up(self, seed: str, engine: str) -> None:
        """See ``Coordinator.give_up``."""
        self._run.give_up(seed, engine)

    async def evaluated(self, seed: str, games: Sequence[str]) -> None:
        """See ``Coordinator.evaluated``."""
        self._run.evaluated(seed, [from_json(game) for game in games])

    @property
    def _run(self) -> Coordinator:
        if self._coordinator is None:
            raise RuntimeError("no engine has joined")
        return self._coordinator

    async def _dead(self, engine: str) -> bool:
        """Return whether an engine is gone. One that is slow to answer, or can't be reached at the moment, lives."""
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


class JobCoordinator:
    """The coordinator of this job, as an engine of it reaches it."""

    def __init__(self, actor: Any, engine: str) -> None:
        """Take ``actor``, a ``CoordinatorActor``'s handle, and ``engine`` the id of the actor that calls."""
        self._actor, self._engine = actor, engine

    @classmethod
    async def of_this_job(cls, run: RunSettings) -> JobCoordinator:
        """Find the coordinator, or start it. Its name is the job's, so that no other job takes it.

        Raises:
            ValueError: the run can't begin or go on.
        """
        here = ray.get_runtime_context()
        actor: Any = ray.remote(CoordinatorActor)
        handle = actor.options(
            name=f"coordinator-{here.get_job_id()}",
            namespace=NAMESPACE,
            get_if_exists=True,
            lifetime="detached",  # else it would end with the engine that started it
            num_cpus=0,
        ).remote()
        await _answer(handle.join.remote(run, here.get_actor_id(), here.current_actor), "join")
        return cls(handle, here.get_actor_id())

    async def begin(self, seed: str) -> Assigned:
        """See ``Coordinator.begin``."""
        return await _answer(self._actor.begin.remote(seed, self._engine), "begin")

    async def finish(self, seed: str, games: Sequence[Game], samples: Sequence[Sample]) -> None:
        """See ``Coordinator.finish``."""
        await _answer(self._actor.finish.remote(seed, self._engine, [*map(to_json, games)], samples), "finish")

    async def give_up(self, seed: str) -> None:
        """See ``Coordinator.give_up``."""
        await _answer(self._actor.give_up.remote(seed, self._engine), "give_up")

    async def evaluated(self, seed: str, games: Sequence[Game]) -> None:
        """See ``Coordinator.evaluated``."""
        await _answer(self._actor.evaluated.remote(seed, [*map(to_json, games)]), "evaluated")


async def _answer(answer: Awaitable[T], call: str) -> T:
    try:
        return await asyncio.wait_for(_awaited(answer), ANSWER_S)
    except TimeoutError:
        raise TimeoutError(f"the coordinator did not answer {call!r} within {ANSWER_S:g} s") from None


async def _awaited(answer: Awaitable[T]) -> T:
    """Await Ray's reference in a coroutine, which ``wait_for`` needs."""
    return await answer
