"""Which engines the coordinator takes for dead, by what Ray answers when it looks. What follows, the cluster's tests see."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

pytest.importorskip("ray", reason="its errors are told apart")

from ray.exceptions import ActorDiedError, ActorUnavailableError

from trainers.cluster import coordinator_actor
from trainers.cluster.coordinator_actor import CoordinatorActor

pytestmark = pytest.mark.openrlhf


@pytest.mark.parametrize(
    ("answer", "dead"),
    [
        (True, False),
        (ActorDiedError(), True),
        (ActorUnavailableError("the connection is broken", None), False),  # it may come back, its games with it
        (None, False),  # busy: no answer at all
    ],
)
def test_only_a_death_is_a_death(monkeypatch, answer, dead):
    async def ready():
        if isinstance(answer, Exception):
            raise answer
        return answer or await asyncio.sleep(60)

    async def look():
        coordinator = CoordinatorActor()
        coordinator._engines["engine"] = SimpleNamespace(__ray_ready__=SimpleNamespace(remote=ready))
        return await coordinator._dead("engine")

    monkeypatch.setattr(coordinator_actor, "WATCH_S", 0.2)
    assert asyncio.run(look()) is dead


def test_a_coordinator_whose_run_cannot_begin_ends_after_its_engines_too(monkeypatch):
    ended = asyncio.Event()

    def begin(run):
        raise ValueError("the folder holds a run already")

    async def died():
        raise ActorDiedError()

    async def join():
        engine = SimpleNamespace(__ray_ready__=SimpleNamespace(remote=died))
        with pytest.raises(ValueError, match="holds a run already"):
            await CoordinatorActor().join(None, "engine", engine)
        await asyncio.wait_for(ended.wait(), 5)

    here = SimpleNamespace(get_runtime_context=lambda: SimpleNamespace(current_actor="this one"))
    here.kill, here.exceptions = lambda actor: ended.set(), coordinator_actor.ray.exceptions
    monkeypatch.setattr(coordinator_actor, "ray", here)
    monkeypatch.setattr(coordinator_actor, "Coordinator", begin)
    monkeypatch.setattr(coordinator_actor, "WATCH_S", 0.05)
    asyncio.run(join())
