"""Who may play a seat, as flags name it: one syntax for ``spyrl play`` and for a training's opponents."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from spy_env.players import Player, human_player, random_player, scripted_player
from trainers.engines import Engine, Failed, Reply, Request
from trainers.engines.endpoint import EndpointEngine
from trainers.small_model import place_of

KINDS = {  # how a flag names it: what it is
    "scripted": "lead sentences, votes by word overlap",
    "random": "a sentence and a vote at random",
    "human": "you, at this terminal",
    "model:FOLDER_OR_ID": "a transformers model, such as model:smollm2-135m or model:Qwen/Qwen3-0.6B",
    "endpoint:URL#MODEL": "an OpenAI-compatible endpoint, such as endpoint:http://localhost:8000/v1#my-model;\n"
    "its key is taken from OPENAI_API_KEY",
    "initial": "the model as it was before training",
    "past": "the model as it was at one of this run's last checkpoints, drawn anew each iteration",
}
ANYWHERE = ("scripted", "random", "human", "model:FOLDER_OR_ID", "endpoint:URL#MODEL")


class SeatPlayer(NamedTuple):
    """``kind`` as in ``KINDS``, before the colon; ``which`` is what stands behind it, empty where there is none."""

    kind: str
    which: str


@dataclass(frozen=True, slots=True)
class ScriptedEngine:
    """Replies from a function of the prompt (see ``spy_env.players``)."""

    player: Callable[[str], str]

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Call the player once a request."""
        return [Reply(self.player(request.prompt)) for request in requests]

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """A function reads prompts of any length."""
        return 0


@dataclass(frozen=True, slots=True)
class RandomEngine:
    """A random player for each request, seeded by the request: chance has no memory that a resumed run would lack."""

    player: Callable[[str], Player] = random_player

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Every reply from its own stream of chance."""
        return [Reply(self.player(request.seed)(request.prompt)) for request in requests]

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """A function reads prompts of any length."""
        return 0


def told(kinds: Collection[str]) -> str:
    """The kinds and what they are, one a line, for help and errors."""
    lines = [f"  {kind:<26}" + KINDS[kind].replace("\n", "\n" + " " * 28) for kind in kinds]
    return "\n".join(["a player is one of", *lines, ""])


def read_player(text: str, kinds: Collection[str]) -> SeatPlayer:
    """The player that ``text`` names, of the ``kinds`` that can play here.

    Raises:
        ValueError: it names none, or an endpoint without a model.
    """
    kind, _, which = text.partition(":")
    with_more = {name.partition(":")[0]: ":" in name for name in kinds}
    if kind not in with_more or with_more[kind] != bool(which) or (":" in text and not which):
        raise ValueError(f"no player {text!r};\n{told(kinds)}")
    if kind == "endpoint" and not all(which.rpartition("#")[::2]):
        raise ValueError(f"endpoint {which!r} names no model; write endpoint:URL#MODEL")
    return SeatPlayer(kind, which)


def engine_for(player: SeatPlayer, timeout: float = 120.0, **of_local_models: Any) -> Engine:
    """An engine for a player that needs no training run. ``of_local_models``: as ``load_engine`` takes them.

    Raises:
        ValueError: there is no such model, or what the player needs isn't installed.
    """
    if player.kind == "endpoint":
        url, _, model = player.which.rpartition("#")
        return EndpointEngine(url, model, os.environ.get("OPENAI_API_KEY", "none"), timeout=timeout)
    if player.kind == "model":
        return _local_engine(player.which, of_local_models)
    if player.kind == "random":
        return RandomEngine()
    return ScriptedEngine(human_player() if player.kind == "human" else scripted_player())


def _local_engine(name: str, options: dict[str, Any]) -> Engine:
    from trainers.engines.local import load_engine

    return load_engine(place_of(name), **options)
