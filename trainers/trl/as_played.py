"""What the model needs so that TRL trains the distribution that was played: positions without padding, no dropout."""

from __future__ import annotations

import inspect
from typing import Any

from trainers.engines.local import positions
from trainers.engines.tree_attention import unwrapped


def count_positions(model: Any) -> None:
    """Let each row's positions begin at its first token.

    TRL pads prompts on the left and names no positions; a model that learned them would count the padding.
    """
    if "position_ids" in inspect.signature(unwrapped(model).forward).parameters:
        model.register_forward_pre_hook(_with_positions, with_kwargs=True)


def _with_positions(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    mask_BT = kwargs.get("attention_mask")
    if kwargs.get("fused_lm_head") and mask_BT is not None:  # TRL's calls, none of an engine's
        kwargs.setdefault("position_ids", positions(mask_BT))
    return args, kwargs


def check_dropout(model: Any) -> None:
    """Games are played without dropout, and TRL trains with it.

    Raises:
        ValueError: the model has some.
    """
    import torch

    if any(isinstance(module, torch.nn.Dropout) and module.p > 0 for module in model.modules()):
        raise ValueError(
            "the model has dropout, with which it trains another distribution than it plays; set disable_dropout=True"
        )
