"""A prefix tree through a transformers model, in one forward pass, with gradient.

Two ways, both exact. ``mask``: a T x T mask on the model's own attention. ``cascade``: an attention function without a
mask, which computes no score in vain; each unbranched run attends to itself and lends its keys to all below it, and the
parts are merged by their log-sum-exp. Its kernel is the CPU's.

Dimensions: T tokens of the tree, N tokens whose logits are read, H heads, D size of a head, V vocabulary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from trainers.engines.prefix_tree import PrefixTree, grow

CASCADE = "spyrl_cascade"
METHODS = ("cascade", "mask")
PLAIN_LAYERS = {"full_attention", "sliding_attention"}
HIDDEN = torch.finfo(torch.bfloat16).min  # finite in every precision that a mask may be cast to

_attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_attend_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
Part = tuple[slice, slice, bool]
"""Queries, the keys that they attend to, and whether causally."""


class _Cascade(torch.autograd.Function):
    """Attention over the tree's parts. The backward of one part is exact when it is given the merged output and log-sum-exp."""

    @staticmethod
    def forward(
        ctx: Any, query_HTD: Tensor, key_HTD: Tensor, value_HTD: Tensor, parts: Sequence[Part], scale: float
    ) -> Tensor:
        out_HTD = query_HTD.new_zeros(query_HTD.shape, dtype=torch.float32)
        total_HT = query_HTD.new_full(query_HTD.shape[:3], float("-inf"), dtype=torch.float32)
        for queries, keys, causal in parts:
            own_HTD, own_HT = _attend(
                query_HTD[:, :, queries], key_HTD[:, :, keys], value_HTD[:, :, keys], 0.0, causal, scale=scale
            )
            before_HT = total_HT[:, :, queries]
            after_HT = torch.logaddexp(before_HT, own_HT)
            kept_HT1, gained_HT1 = (before_HT - after_HT).exp()[..., None], (own_HT - after_HT).exp()[..., None]
            out_HTD[:, :, queries] = out_HTD[:, :, queries] * kept_HT1 + own_HTD * gained_HT1
            total_HT[:, :, queries] = after_HT
        out_HTD = out_HTD.to(query_HTD.dtype)
        ctx.save_for_backward(query_HTD, key_HTD, value_HTD, out_HTD, total_HT)
        ctx.parts, ctx.scale = parts, scale
        return out_HTD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query_HTD, key_HTD, value_HTD, out_HTD, total_HT = ctx.saved_tensors
        query_grad, key_grad, value_grad = map(torch.zeros_like, (query_HTD, key_HTD, value_HTD))
        for queries, keys, causal in ctx.parts:
            to_query, to_key, to_value = _attend_backward(
                grads[0][:, :, queries],
                query_HTD[:, :, queries],
                key_HTD[:, :, keys],
                value_HTD[:, :, keys],
                out_HTD[:, :, queries],
                total_HT[:, :, queries],
                0.0,
                causal,
                scale=ctx.scale,
            )
            query_grad[:, :, queries] += to_query
            key_grad[:, :, keys] += to_key
            value_grad[:, :, keys] += to_value
        return query_grad, key_grad, value_grad, None, None


def _cascade_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    tree_parts: Sequence[Part] | None = None,
    **unused: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer; ``tree_parts`` come through the model's keyword arguments."""
    beyond = [name for name in ("softcap", "s_aux") if unused.get(name) is not None]
    if tree_parts is None or dropout or beyond:
        raise ValueError(f"cascade attention serves prefix trees alone, without dropout or {beyond or 'more'}")
    query, key = query.to(value.dtype), key.to(value.dtype)  # autocast leaves rotated ones in fp32
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out_HTD = _Cascade.apply(query, key, value, tree_parts, scale)
    return out_HTD.transpose(1, 2).contiguous(), None


AttentionInterface.register(CASCADE, _cascade_attention)


def unwrapped(model: Any) -> Any:
    """The transformers model itself; peft's wrapper has another signature, name and head."""
    return getattr(model, "get_base_model", lambda: model)()


def parts_of(tree: PrefixTree) -> list[Part]:
    """What ``cascade`` computes: each segment causally with itself, then all below it with the whole of it."""
    parts: list[Part] = []
    for start, stop, end in tree.segments():
        own = slice(start, stop)
        parts.append((own, own, True))
        if end > stop:
            parts.append((slice(stop, end), own, False))
    return parts


def mask_of(tree: PrefixTree, device: torch.device, dtype: torch.dtype, window: int | None = None) -> Tensor:
    """What each token may see, as a float mask of shape (1, 1, T, T); in a sliding layer only ``window`` tokens back.

    Float, since a boolean one would be turned into floats anew in every layer.
    """
    place_T = torch.arange(len(tree.ids), device=device)
    end_T = torch.tensor(tree.ends, device=device)
    seen_TT = (place_T[None] <= place_T[:, None]) & (place_T[:, None] < end_T[None])
    if window is not None:
        depth_T = torch.tensor(tree.depths, device=device)
        seen_TT &= depth_T[:, None] - depth_T[None] < window
    tokens = len(tree.ids)
    rows = torch.full((tokens, -(-tokens // 8) * 8), HIDDEN, dtype=dtype, device=device)  # kernels copy other strides
    return rows[:, :tokens].masked_fill_(seen_TT, 0.0)[None, None]


def layer_kinds(model: Any) -> dict[str, int | None]:
    """The kinds of attention layer of a model, each with its window."""
    config = model.config.get_text_config()
    told = (getattr(config, name, None) for name in ("layer_types", "layers_block_type", "attention_layers"))
    kinds = next(filter(None, told), None)
    window = getattr(config, "sliding_window", None)
    if kinds is None:  # older architectures slide in every layer or in none
        return {"full_attention": window}
    return {kind: window if kind == "sliding_attention" else None for kind in dict.fromkeys(kinds)}


def run_tree(model: Any, tree: PrefixTree, method: str, read_N: Tensor | int, **options: Any) -> Any:
    """The model's output for the tree, logits only at ``read_N`` (places in the tree, or as many last ones).

    Call it within ``attending(model, method)``, which must last until backward has ended. A window that is longer than
    the longest sequence hides nothing; ``cascade`` knows no other.
    """
    device = model.device
    if method == "cascade":
        how: dict[str, Any] = {"attention_mask": None, "tree_parts": parts_of(tree)}
    else:
        autocast = torch.is_autocast_enabled(device.type)  # which would else cast the mask in every layer
        dtype = torch.get_autocast_dtype(device.type) if autocast else model.dtype
        masks = {
            kind: mask_of(tree, device, dtype, window if window and window < tree.longest else None)
            for kind, window in layer_kinds(model).items()
        }
        how = {"attention_mask": masks if "sliding_attention" in masks else next(iter(masks.values()))}
    return model(
        input_ids=torch.tensor([tree.ids], device=device),
        position_ids=torch.tensor([tree.depths], device=device),
        logits_to_keep=read_N,
        **how,
        **options,
    )


@contextlib.contextmanager
def attending(model: Any, method: str | None) -> Iterator[None]:
    """Give the model the attention that a method needs, and take it back."""
    plain = unwrapped(model)
    before = plain.config._attn_implementation
    if method == "cascade":
        plain.set_attn_implementation(CASCADE)
    try:
        yield
    finally:
        plain.set_attn_implementation(before)


def method_for(model: Any, wanted: str) -> tuple[str | None, str]:
    """How to compute trees: ``wanted``, or with "auto" the best way that this model and device can take.

    Returns the method, or None and the reason why whole sequences must do.

    Raises:
        ValueError: a method was asked for by name and can't be had.
    """
    if wanted == "off":
        return None, "turned off"
    if wanted != "auto":
        if reason := reason_against(model, wanted):
            raise ValueError(f"--actor.shared_prompts is {wanted!r}, and {reason}; choose auto or off")
        return wanted, ""
    reasons = {}
    for method in METHODS:
        if not (reason := reason_against(model, method)):
            return method, ""
        reasons[method] = reason
    return None, reasons["mask"]


def reason_against(model: Any, method: str) -> str | None:
    """Why a model, in evaluation mode, can't take trees in this way; None where a trial on a few tokens shows that it can."""
    if strange := sorted(set(layer_kinds(model)) - PLAIN_LAYERS):
        return f"{_name(model)} has layers of kind {', '.join(strange)}, whose state can't branch"
    if method == "cascade" and model.device.type != "cpu":
        return "its kernel is the CPU's"
    if method == "mask" and "flash" in (attention := model.config._attn_implementation):
        return f"{attention} takes no such mask"
    try:
        error = _error_on_a_trial(model, method)
    except Exception as raised:  # whatever an architecture can't do, it says in its own way
        return f"{_name(model)} refuses: {type(raised).__name__}: {raised}"
    exact = model.dtype == torch.float32 and not torch.is_autocast_enabled(model.device.type)
    close = 1e-3 if exact else 0.1  # of the logits' spread; a trained model's roundings in bf16 come to some 0.02
    return None if error <= close else f"{_name(model)} gives other logits for a tree than for its sequences"


def _name(model: Any) -> str:
    return type(unwrapped(model)).__name__


@torch.no_grad()
def _error_on_a_trial(model: Any, method: str) -> float:
    """How far logits are from those of plain sequences: root mean square, relative to their spread."""
    size = model.config.get_text_config().vocab_size
    half = min([12, *_windows(model)]) // 2  # no window is shorter, or the cascade wouldn't be asked
    runs = [tuple((7 * i * i + 3) % size for i in range(start, start + half)) for start in range(0, 4 * half, half)]
    sequences = [runs[0] + run for run in runs[1:]]
    tree = grow(sequences)
    with attending(model, method):
        tree_TV = run_tree(model, tree, method, 0, use_cache=False).logits[0].float()
    plain_LV = [
        model(input_ids=torch.tensor([one], device=model.device), use_cache=False).logits[0].float()
        for one in sequences
    ]
    errors = [
        ((tree_TV[list(path)] - plain).square().mean().sqrt() / plain.std()).item()
        for path, plain in zip(tree.paths, plain_LV, strict=True)
    ]
    return max(errors)


def fitting(model: Any, longest: int, method: str) -> str:
    """``mask`` where a layer's window is shorter than the longest sequence, else ``method``."""
    return "mask" if min([longest, *_windows(model)]) < longest else method


def _windows(model: Any) -> list[int]:
    return [window for window in layer_kinds(model).values() if window]
