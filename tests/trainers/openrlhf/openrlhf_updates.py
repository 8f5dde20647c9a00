"""OpenRLHF's own update of the policy, on a policy whose parameters are the log-probabilities of its samples' tokens.

What runs is the package's: replay buffer, micro-batches, normalisation, loss, KL, and how a step combines them. Only the
model and DeepSpeed aren't there; of DeepSpeed stands the one rule that the loss counts on.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ray.ppo_actor import ActorPPOTrainer
from torch import Tensor, nn


class KnownLogprobs(nn.Module):
    """A policy that says of sample i, whose first token is i, what stands in row i."""

    def __init__(self, logprobs_NA: Tensor) -> None:
        super().__init__()
        self.logprobs_NA = nn.Parameter(logprobs_NA.clone())

    def forward(self, sequences: Tensor, action_mask: Tensor, **_: Any) -> tuple[Tensor, SimpleNamespace]:
        return self.logprobs_NA[sequences[:, 0], : action_mask.shape[1]], SimpleNamespace()


class PlainStrategy:
    """What the trainer asks of DeepSpeed, which divides the loss of each of a step's micro-batches by their number."""

    ring_attn_group = None

    def __init__(self, args: Any, accumulated_gradient: int) -> None:
        self.args, self.accumulated_gradient, self.loss = args, accumulated_gradient, 0.0

    def backward(self, loss: Tensor, model: nn.Module, optimizer: Any) -> None:
        share = loss / self.accumulated_gradient
        share.backward()
        self.loss += share.item()

    def optimizer_step(self, *_: Any, **__: Any) -> None:
        pass  # the gradient is what is looked at

    def get_grad_norm(self, model: nn.Module) -> float:
        return 0.0

    def all_reduce(self, values: dict[str, Any]) -> dict[str, Any]:
        return values

    def is_rank_0(self) -> bool:
        return False


def trainer_of(policy: nn.Module, args: Any, samples: int, micro_batch: int) -> ActorPPOTrainer:
    """The package's trainer of the actor, whose step is all samples at once, in micro-batches."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return ActorPPOTrainer(
        PlainStrategy(args, samples // micro_batch),
        policy,
        None,
        None,
        SimpleNamespace(get_last_lr=lambda: [0.0]),
        micro_train_batch_size=micro_batch,
        dataloader_pin_memory=False,
    )


def experience_of(rows: int, **steps: Tensor) -> Experience:
    """Samples without a prompt to speak of: row i is its first token, and all fields by action (padded on the right) are
    given.
    """
    mask_NA = steps["action_mask"]
    lengths_N = mask_NA.sum(dim=1)
    attention_NT = torch.cat([torch.ones(rows, 1, dtype=torch.long), mask_NA.long()], dim=1)
    sequences_NT = torch.zeros_like(attention_NT)
    sequences_NT[:, 0] = torch.arange(rows)
    return Experience(
        sequences=sequences_NT,
        attention_mask=attention_NT,
        response_length=lengths_N,
        total_length=lengths_N + 1,
        truncated=torch.zeros(rows, dtype=torch.bool),
        rewards=torch.zeros(rows),
        scores=torch.zeros(rows),
        info={},
        **steps,
    )
