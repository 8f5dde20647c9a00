"""OpenEnv's client for the server: typed results instead of dicts."""

from __future__ import annotations

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from trainers.openenv.models import SpyAction, SpyObservation, SpyState


class SpyEnv(EnvClient[SpyAction, SpyObservation, SpyState]):
    """A seat on a server: ``SpyEnv("http://localhost:8000").sync()``, or awaited."""

    def _step_payload(self, action: SpyAction) -> dict[str, Any]:
        return {"text": action.text}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[SpyObservation]:
        told = SpyObservation(**payload["observation"], reward=payload["reward"], done=payload["done"])
        return StepResult(observation=told, reward=payload["reward"], done=payload["done"])

    def _parse_state(self, payload: dict[str, Any]) -> SpyState:
        return SpyState(**payload)
