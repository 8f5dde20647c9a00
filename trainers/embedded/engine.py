"""The engine that plays with the weights being trained, and how the weights reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from trainers.engines import Failed, Reply, Request
from trainers.engines.local import LocalEngine

ADAPTER = "default"
ROWS, TOKENS = (
    32,
    32768,
)  # generated at a time, unless --rollout.micro_batch_size and --rollout.max_tokens_per_gpu are given; our choice
GPU_SHARE = 0.4  # of the memory for vLLM; the trainer has the rest; our choice


class SharedEngine(LocalEngine):
    """The local engine on the policy's own module, in the policy's precision."""

    def __init__(self, *local: Any, precision: Callable[[], AbstractContextManager[Any]]) -> None:
        """``local`` as for the local engine; ``precision`` is around every forward pass."""
        super().__init__(*local)
        self._precision = precision

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Generate as the local engine does."""
        with self._precision():
            return super().generate(requests)

    def take(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Do nothing: the module is shared, so its weights are always those being trained."""


def plain_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights under plain transformers' names, tied ones once. Adapters are merged into copies, one at a time.

    Raises:
        ValueError: an adapter sits on tied embeddings, where the two ends of the model would need different weights.
    """
    # without adapters the model's own parameters are the plain ones
    if not hasattr(model, "get_base_model"):
        yield from ((name, parameter.detach()) for name, parameter in model.named_parameters())
        return
    plain = model.get_base_model()
    ends = (plain.get_input_embeddings(), plain.get_output_embeddings())
    if plain.config.tie_word_embeddings and any(hasattr(end, "base_layer") for end in ends):
        raise ValueError("--ds.lora.target_modules names tied embeddings, which can't be merged; leave them out")
    for name, parameter in plain.named_parameters():
        if "lora_" not in name:  # peft's name for what it adds
            yield _merged(plain, name, parameter.detach())


@torch.no_grad()
def _merged(plain: Any, name: str, weight: Tensor) -> tuple[str, Tensor]:
    layer, wrapped, kind = name.partition(".base_layer.")
    if wrapped and kind == "weight":
        weight = weight.float() + plain.get_submodule(layer).get_delta_weight(ADAPTER).float()
    return f"{layer}.{kind}" if wrapped else name, weight
