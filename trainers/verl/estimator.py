"""The advantage estimator ``spyrl``: the curriculum has made the advantages already, and they arrive as rewards.

verl loads this module as a plugin (the entry point ``verl.plugins``), in whichever process computes advantages.
"""

from __future__ import annotations

from typing import Any

import torch
from verl.trainer.ppo.core_algos import register_adv_est


@register_adv_est("spyrl")  # type: ignore[untyped-decorator] # verl has no types here
def advantages_as_they_are(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each sample's reward, which is at its last token, for all of its trained tokens: advantages and returns."""
    advantages_BT = token_level_rewards.sum(dim=-1, keepdim=True) * response_mask
    return advantages_BT, advantages_BT
