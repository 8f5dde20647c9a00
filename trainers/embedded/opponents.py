"""The engines of opponents, who don't learn. The learner's earlier weights are loaded only while they play, so that at most
one model of the pool is in memory; with LoRA an adapter alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from trainers.embedded.checkpoints import STATE
from trainers.embedded.lineup import INITIAL, OPPONENTS
from trainers.embedded.policy import Policy
from trainers.engines import Engine, Failed, Reply, Request
from trainers.engines.encoder import Encoder, EncodingReader
from trainers.engines.local import LocalEngine
from trainers.engines.players import engine_for, read_player
from trainers.rollout import SeatPolicies


@dataclass(frozen=True, slots=True)
class Frozen(EncodingReader):
    """An engine whose weights are in place only while it plays."""

    playing: Callable[[], AbstractContextManager[LocalEngine]]
    encoder: Encoder

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Generate as the local engine does."""
        with self.playing() as engine:
            return engine.generate(requests)


class Batch(NamedTuple):
    """How local opponents generate: replies and tokens at a time, and options of the chat template."""

    rows: int
    tokens: int
    template_options: dict[str, Any]


class Opponents:
    """Who plays the roles that the learner doesn't, at each iteration."""

    def __init__(
        self,
        by_role: Mapping[str, str],
        of_evaluations: str,
        drawn: Callable[[int], int],
        earlier: EarlierWeights,
        batch: Batch,
    ) -> None:
        """Take the players by role and in evaluations. ``drawn`` gives the iteration whose checkpoint ``past`` is.

        Raises:
            ValueError: an opponent's model can't be loaded, or what it needs isn't installed.
        """
        self._by_role, self._of_evaluations, self._drawn = by_role, of_evaluations, drawn
        self._earlier, self._batch = earlier, batch
        named = dict.fromkeys([*by_role.values(), *filter(None, [of_evaluations])])
        self._engines = {player: self._fixed(player) for player in named if player != "past"}

    def _fixed(self, text: str) -> Engine:
        player = read_player(text, OPPONENTS)
        if player.kind == "initial":
            return self._earlier.engine(INITIAL)
        rows, tokens, options = self._batch
        return engine_for(player, rows=rows, max_tokens=tokens, template_options=options)

    @property
    def of_evaluations(self) -> Engine | None:
        """The opponent in evaluations, if there is one."""
        return self._engines.get(self._of_evaluations)

    def seats_at(self, seats: SeatPolicies, step: int) -> SeatPolicies:
        """Return the learner's seats, with the opponents of iteration ``step``."""
        return replace(seats, others={role: self._engine_at(player, step) for role, player in self._by_role.items()})

    def judging(self, seats: SeatPolicies) -> SeatPolicies:
        """Return the learner's seats on held-out games: opponents' referees judge them, too, unless they change in training."""
        referee = self._engines.get(self._by_role.get("referee", ""))
        return seats if referee is None else replace(seats, others={"referee": referee})

    def names_at(self, step: int) -> dict[str, str]:
        """Name the opponents by role; a past self by the iteration of its checkpoint."""
        return {
            role: f"past:{self._drawn(step)}" if player == "past" else player for role, player in self._by_role.items()
        }

    def _engine_at(self, player: str, step: int) -> Engine:
        return self._earlier.engine(self._drawn(step)) if player == "past" else self._engines[player]


class EarlierWeights:
    """Engines of the learner's weights as they were after an iteration, or before training (``INITIAL``)."""

    def __init__(self, policy: Policy, checkpoint_of: Callable[[int], Path], batch: Batch) -> None:
        """``checkpoint_of`` gives the folder that ``RunFolder.save`` writes. Nothing is loaded before it plays."""
        self._policy, self._checkpoint_of, self._batch = policy, checkpoint_of, batch
        self._encoder = policy.engine.encoder
        self._engines: dict[int, Frozen] = {}
        self._held: dict[bool, tuple[int, Any]] = {}  # the model before training, and one of the pool

    def engine(self, step: int) -> Frozen:
        """Return the learner as it was after ``step``; always the same engine."""
        return self._engines.setdefault(step, Frozen(lambda: self._playing(step), self._encoder))

    @contextlib.contextmanager
    def _playing(self, step: int) -> Iterator[LocalEngine]:
        in_place = self._adapter(step) if self._policy.lora else self._model(step)
        with in_place as model, self._policy.precision():
            yield LocalEngine(model, self._encoder, self._batch.rows, self._batch.tokens, self._policy.sharing)

    @contextlib.contextmanager
    def _adapter(self, step: int) -> Iterator[Any]:
        model = self._policy.model
        if step == INITIAL:
            with model.disable_adapter():
                yield model
        else:
            with _in_place(model, self._hold(step, _adapter_of)):
                yield model

    @contextlib.contextmanager
    def _model(self, step: int) -> Iterator[Any]:
        if step == INITIAL and self._policy.reference is not None:
            yield self._policy.reference
        else:
            yield self._hold(step, self._whole_model)

    def _hold(self, step: int, load: Callable[[Path], Any]) -> Any:
        """Load the weights of an iteration, and drop another one of the pool first."""
        pooled = step != INITIAL
        if self._held.get(pooled, (None,))[0] != step:
            self._held.pop(pooled, None)
            place = self._checkpoint_of(step) if pooled else Path(self._policy.source)
            if pooled and not place.is_dir():
                raise ValueError(
                    f"{place} is gone, and --opponents.* past plays with it; put it back, or begin a new run in another "
                    "--ckpt.output_dir"
                )
            self._held[pooled] = step, load(place)
        return self._held[pooled][1]

    def _whole_model(self, folder: Path) -> Any:
        dtype = torch.bfloat16 if self._policy.bf16 else torch.float32
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        return model.to(self._policy.device).eval().requires_grad_(False)


def _adapter_of(folder: Path) -> dict[str, Tensor]:
    """Read a checkpoint's adapter, and not the optimizer's state beside it."""
    weights = torch.load(folder / STATE, map_location="cpu", mmap=True, weights_only=True)["weights"]
    return {name: weight.clone() for name, weight in weights.items()}  # copied, since the file may be removed


@contextlib.contextmanager
def _in_place(model: Any, weights: dict[str, Tensor]) -> Iterator[None]:
    """Put other weights into a model's parameters; afterwards its own come back bit for bit."""
    parameters = {name: parameter for name, parameter in model.named_parameters() if name in weights}
    own = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    try:
        _copy(weights, parameters)
        yield
    finally:
        _copy(own, parameters)


@torch.no_grad()
def _copy(weights: dict[str, Tensor], parameters: dict[str, Tensor]) -> None:
    for name, parameter in parameters.items():
        parameter.copy_(weights[name])
