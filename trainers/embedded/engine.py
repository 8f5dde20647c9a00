"""The engine that plays with the weights being trained, and how it comes by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trainers.engines import Failed, Reply, Request
from trainers.engines.encoder import Encoder, end_tokens
from trainers.engines.local import LocalEngine
from trainers.engines.vllm import VllmEngine

if TYPE_CHECKING:
    from trainers.embedded.policy import Policy

ADAPTER = "default"
ROWS, TOKENS = (
    32,
    32768,
)  # generated at a time, unless --rollout.micro_batch_size and --rollout.max_tokens_per_gpu are given; our choice
GPU_SHARE = 0.4  # of the memory for vLLM; the trainer has the rest; our choice


class SharedEngine(LocalEngine):
    """The local engine on the policy's own module, in the policy's precision."""

    def __init__(self, policy: Policy, encoder: Encoder) -> None:
        rollout = policy.config.rollout
        super().__init__(
            policy.model,
            encoder,
            rollout.micro_batch_size or ROWS,
            rollout.max_tokens_per_gpu or TOKENS,
            policy.sharing,
        )
        self._policy = policy

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """As the local engine's."""
        with self._policy.precision():
            return super().generate(requests)

    def take(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """The module is shared: its weights are always those being trained."""


def engine_for(policy: Policy, encoder: Encoder) -> SharedEngine | VllmEngine:
    """The engine that ``--rollout.engine`` names.

    Raises:
        ValueError: vLLM isn't installed as it was tried, or can't serve the model.
    """
    config = policy.config
    if config.rollout.engine == "transformers":
        return SharedEngine(policy, encoder)
    return VllmEngine(
        policy.source,
        encoder,
        end_tokens(policy.model, encoder.tokenizer),
        dtype=torch.bfloat16 if policy.bf16 else torch.float32,
        max_len=config.data.max_len,
        rows=config.rollout.micro_batch_size or ROWS,
        gpu_memory_utilization=config.vllm.gpu_memory_utilization or GPU_SHARE,
        enforce_eager=config.vllm.enforce_eager,
        enable_prefix_caching=config.vllm.enable_prefix_caching,
    )


def plain_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """The weights under plain transformers' names, tied ones once. Adapters are merged into copies, one at a time.

    Raises:
        ValueError: an adapter sits on tied embeddings, where the two ends of the model would need different weights.
    """
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
