"""Who may play a seat, as flags name it: one syntax for ``spyrl play`` and for a training's opponents."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from spy_env.players import Player, coverage_player, human_player, random_player, scripted_player
from trainers.engines.endpoint import EndpointEngine
from trainers.engines.protocol import Engine, Failed, Reply, Request
from trainers.small_model import place_of

KINDS = {  # a flag's value: its explanation
    "scripted": "lead sentences, votes by word overlap",
    "coverage": "lead sentences, votes by what is said of one passage of the document in words of its own",
    "random": "a sentence and a vote at random",
    "human": "you, at this terminal",
    "model:FOLDER_OR_ID": "a transformers model, such as model:smollm2-135m or model:Qwen/Qwen3-0.6B",
    "endpoint:URL#MODEL": "an OpenAI-compatible endpoint, such as endpoint:http://localhost:8000/v1#my-model;\n"
    "its key is taken from OPENAI_API_KEY",
    "initial": "the model as it was before training",
    "past": "the model as it was at one of this run's last checkpoints, drawn anew each iteration",
}
ANYWHERE = tuple(kind for kind in KINDS if kind not in ("initial", "past"))  # the players that need no training run


class SeatPlayer(NamedTuple):
    """``kind`` is one of ``KINDS``, up to its colon; ``which`` is the part after the colon, or empty."""

    kind: str
    which: str


@dataclass(frozen=True, slots=True)
class ScriptedEngine(Engine):
    """Replies from a function of the prompt (see ``spy_env.players``), which reads prompts of any length."""

    player: Player

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Call the player once per request."""
        return [Reply(self.player(request.prompt)) for request in requests]


@dataclass(frozen=True, slots=True)
class SeededEngine(Engine):
    """A player for each request, seeded by the request: chance has no memory that a resumed run would lack."""

    player: Callable[[str], Player] = random_player

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Draw every reply from its own stream of chance."""
        return [Reply(self.player(request.seed)(request.prompt)) for request in requests]


def players_help(kinds: Collection[str]) -> str:
    """List the kinds with their explanations, for help and errors."""
    lines = [f"  {kind:<26}" + KINDS[kind].replace("\n", "\n" + " " * 28) for kind in kinds]
    return "\n".join(["a player is one of", *lines, ""])


def read_player(text: str, kinds: Collection[str]) -> SeatPlayer:
    """Return the player that ``text`` names, of the ``kinds`` that can play here.

    Raises:
        ValueError: it names none, or an endpoint without a model.
    """
    kind, colon, which = text.partition(":")
    takes_more = {name.partition(":")[0]: ":" in name for name in kinds}
    if takes_more.get(kind) is not bool(colon) or bool(colon) is not bool(which):
        raise ValueError(f"no player {text!r};\n{players_help(kinds)}")
    if kind == "endpoint" and not all(which.rpartition("#")[::2]):
        raise ValueError(f"endpoint {which!r} names no model; write endpoint:URL#MODEL")
    return SeatPlayer(kind, which)


def engine_for(player: SeatPlayer, timeout: float = 120.0, **of_local_models: Any) -> Engine:
    """Return an engine for a player that needs no training run; ``of_local_models`` go to ``load_engine``.

    Raises:
        ValueError: there is no such model, or a package that the player needs isn't installed.
    """
    match player.kind:
        case "endpoint":
            url, _, model = player.which.rpartition("#")
            return EndpointEngine(url, model, os.environ.get("OPENAI_API_KEY", "none"), timeout=timeout)
        case "model":
            # Here, since the other players need no torch.
            from trainers.engines.local import load_engine

            return load_engine(place_of(player.which), **of_local_models)
        case "random":
            return SeededEngine(random_player)
        case "coverage":
            return SeededEngine(coverage_player)
        case "human":
            return ScriptedEngine(human_player())
        case _:
            return ScriptedEngine(scripted_player())
