"""The loss of one micro-batch. Pure functions of tensors.

Dimensions: B samples, T reply tokens (padded on the right; ``mask_BT`` is 1 where a token was sampled).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

AGGREGATIONS = ("token-mean", "seq-mean-token-mean")  # OpenRLHF's names
RATIOS = ("token", "sequence", "sequence-mean")


@dataclass(frozen=True, slots=True)
class LossRules:
    """``clip`` and ``kl_coef`` as published (0.2, 0.001). ``ratio``: by token (Eq 7), the product over the sequence (Eq 8), or
    its geometric mean; at ratio 1 all three have the same gradient.
    """

    clip: float = 0.2
    kl_coef: float = 0.001
    aggregation: str = "token-mean"
    ratio: str = "token"

    def __post_init__(self) -> None:
        if self.aggregation not in AGGREGATIONS:
            raise ValueError(f"loss_agg_mode is {self.aggregation!r}; choose one of {list(AGGREGATIONS)}")
        if self.ratio not in RATIOS:
            raise ValueError(f"ratio is {self.ratio!r}; choose one of {list(RATIOS)}")


@dataclass(frozen=True, slots=True)
class Whole:
    """Tokens and samples of the whole optimizer step, so that micro-batches add up to its mean."""

    tokens: int
    samples: int


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of a micro-batch: ``value`` has the gradient, the others are detached. All are shares of the step's means."""

    value: Tensor
    policy: Tensor
    kl: Tensor
    clipped: Tensor


def aggregate(values_BT: Tensor, mask_BT: Tensor, aggregation: str, whole: Whole) -> Tensor:
    """Return the micro-batch's share of a mean: over all tokens, or over samples of each sample's mean over its tokens."""
    if aggregation == "token-mean":
        return (values_BT * mask_BT).sum() / whole.tokens
    lengths_B = mask_BT.sum(dim=1).clamp(min=1)
    return ((values_BT * mask_BT).sum(dim=1) / lengths_B).sum() / whole.samples


def k3(logprobs_BT: Tensor, reference_BT: Tensor) -> Tensor:
    """Estimate KL(policy || reference) per token: exp(d) - d - 1 with d = ref - policy (Schulman's k3)."""
    difference_BT = reference_BT - logprobs_BT
    return difference_BT.exp() - difference_BT - 1


def policy_objective(
    logprobs_BT: Tensor, old_BT: Tensor, advantages_B: Tensor, mask_BT: Tensor, rules: LossRules
) -> tuple[Tensor, Tensor]:
    """Return the clipped objective of each token (B, T), and where clipping lowers it."""
    # masked first: padding has ratio 1 and can't overflow
    log_ratio_BT = (logprobs_BT - old_BT) * mask_BT
    lengths_B1 = mask_BT.sum(dim=1, keepdim=True).clamp(min=1)
    # one ratio per token (Eq 7), or one per sequence, spread over its tokens: their product (Eq 8) or geometric mean
    if rules.ratio == "token":
        ratio_BT = log_ratio_BT.exp()
    elif rules.ratio == "sequence":
        ratio_BT = log_ratio_BT.sum(dim=1, keepdim=True).exp().expand_as(log_ratio_BT)
    else:
        ratio_BT = (log_ratio_BT.sum(dim=1, keepdim=True) / lengths_B1).exp().expand_as(log_ratio_BT)
    # PPO's pessimistic bound: the smaller of the plain and the clipped objective
    advantages_B1 = advantages_B[:, None]
    plain_BT = ratio_BT * advantages_B1
    bounded_BT = ratio_BT.clamp(1 - rules.clip, 1 + rules.clip) * advantages_B1
    objective_BT = torch.minimum(plain_BT, bounded_BT)
    if rules.ratio == "sequence":  # one term a sequence, spread over its tokens
        objective_BT = objective_BT / lengths_B1
    # clipping took hold where the bound is the smaller one
    return objective_BT, bounded_BT < plain_BT


def loss_of(
    logprobs_BT: Tensor,
    old_BT: Tensor,
    reference_BT: Tensor | None,
    advantages_B: Tensor,
    mask_BT: Tensor,
    rules: LossRules,
    whole: Whole,
) -> Loss:
    """Return the clipped policy loss plus ``kl_coef`` times k3. ``old_BT``: log-probabilities as sampled."""
    objective_BT, clipped_BT = policy_objective(logprobs_BT, old_BT, advantages_B, mask_BT, rules)
    policy = -aggregate(objective_BT, mask_BT, rules.aggregation, whole)
    kl = policy.new_zeros(())
    if reference_BT is not None:
        kl_BT = k3(logprobs_BT * mask_BT, reference_BT * mask_BT)  # padding is masked before exp can overflow
        kl = aggregate(kl_BT, mask_BT, rules.aggregation, whole)
    clipped = (clipped_BT * mask_BT).sum() / whole.tokens
    return Loss(policy + rules.kl_coef * kl, policy.detach(), kl.detach(), clipped)
