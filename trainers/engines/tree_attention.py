"""A prefix tree through a transformers model, in one forward pass, with gradient.

Two exact methods. ``mask``: a T x T mask on the model's own attention. ``cascade``: an attention function that computes
no hidden score, on the CPU only; each unbranched run attends to itself and lends its keys to its descendants, and the
parts are merged by their log-sum-exp.

Dimensions: B 1, T tokens of the tree, Q queries and K keys of a part, N tokens whose logits are read, H heads, D size of
a head, S tokens of a sequence, V vocabulary.
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
    """Attention over the tree's parts. The backward of a part is exact if it gets the merged output and log-sum-exp."""

    @staticmethod
    def forward(
        ctx: Any, query_BHTD: Tensor, key_BHTD: Tensor, value_BHTD: Tensor, parts: Sequence[Part], scale: float
    ) -> Tensor:
        # Nothing attended to yet: output 0 (B, H, T, D), log-sum-exp of no score (B, H, T). In fp32, as kernels keep sums.
        out_BHTD = query_BHTD.new_zeros(query_BHTD.shape, dtype=torch.float32)
        total_BHT = query_BHTD.new_full(query_BHTD.shape[:3], float("-inf"), dtype=torch.float32)
        for queries, keys, causal in parts:
            # The part by itself: output (B, H, Q, D) and log-sum-exp of its scores (B, H, Q).
            part_BHQD, part_BHQ = _attend(
                query_BHTD[:, :, queries], key_BHTD[:, :, keys], value_BHTD[:, :, keys], 0.0, causal, scale=scale
            )
            # Softmax over the union of keys: weigh both outputs by their share of the summed exponentials.
            before_BHQ = total_BHT[:, :, queries]
            after_BHQ = torch.logaddexp(before_BHQ, part_BHQ)
            kept_BHQ1 = (before_BHQ - after_BHQ).exp()[..., None]
            gained_BHQ1 = (part_BHQ - after_BHQ).exp()[..., None]
            out_BHTD[:, :, queries] = out_BHTD[:, :, queries] * kept_BHQ1 + part_BHQD * gained_BHQ1
            total_BHT[:, :, queries] = after_BHQ
        out_BHTD = out_BHTD.to(query_BHTD.dtype)
        ctx.save_for_backward(query_BHTD, key_BHTD, value_BHTD, out_BHTD, total_BHT)
        ctx.parts, ctx.scale = parts, scale
        return out_BHTD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query_BHTD, key_BHTD, value_BHTD, out_BHTD, total_BHT = ctx.saved_tensors
        query_grad, key_grad, value_grad = map(torch.zeros_like, (query_BHTD, key_BHTD, value_BHTD))
        for queries, keys, causal in ctx.parts:
            # Given the merged sums, the kernel recomputes each score's final weight: gradients (B, H, Q or K, D) just add.
            to_query, to_key, to_value = _attend_backward(
                grads[0][:, :, queries],
                query_BHTD[:, :, queries],
                key_BHTD[:, :, keys],
                value_BHTD[:, :, keys],
                out_BHTD[:, :, queries],
                total_BHT[:, :, queries],
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
    """Attend in a layer, as transformers calls it; ``tree_parts`` come through the model's keyword arguments."""
    unserved = [name for name in ("softcap", "s_aux") if unused.get(name) is not None]
    if tree_parts is None or dropout or unserved:
        raise ValueError(
            f"cascade attention takes prefix trees alone, with dropout 0 (now {dropout}) and without softcap and sinks "
            f"(now {unserved}); give --actor.shared_prompts mask"
        )
    # Under autocast, rotated queries and keys (B, H, T, D) are still fp32; the kernel wants one precision.
    query, key = query.to(value.dtype), key.to(value.dtype)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out_BHTD = _Cascade.apply(query, key, value, tree_parts, scale)
    return out_BHTD.transpose(1, 2).contiguous(), None  # transformers wants (B, T, H, D)


AttentionInterface.register(CASCADE, _cascade_attention)


def unwrapped(model: Any) -> Any:
    """Return the transformers model itself; peft's wrapper has another signature, name and head."""
    return getattr(model, "get_base_model", lambda: model)()


def parts_of(tree: PrefixTree) -> list[Part]:
    """Return the parts of ``cascade``: each segment causally with itself, then its descendants with the whole of it."""
    parts: list[Part] = []
    for start, stop, end in tree.segments():
        segment = slice(start, stop)
        parts.append((segment, segment, True))
        if end > stop:
            parts.append((slice(stop, end), segment, False))
    return parts


def mask_of(tree: PrefixTree, device: torch.device, dtype: torch.dtype, window: int | None = None) -> Tensor:
    """Return which tokens each token sees, as a float mask (1, 1, T, T); a sliding layer sees ``window`` tokens back.

    Floats, since every layer would convert a boolean mask anew.
    """
    # Token q sees itself and its ancestors k: k <= q < end[k], as (query, key).
    place_T = torch.arange(len(tree.ids), device=device)
    end_T = torch.tensor(tree.ends, device=device)
    seen_TT = (place_T[None] <= place_T[:, None]) & (place_T[:, None] < end_T[None])
    # Distances in a sequence are differences of depth, not of place.
    if window is not None:
        depth_T = torch.tensor(tree.depths, device=device)
        seen_TT &= depth_T[:, None] - depth_T[None] < window
    # Rows begin at multiples of 8 numbers; attention kernels would copy a mask with other strides.
    tokens = len(tree.ids)
    rows = torch.full((tokens, -(-tokens // 8) * 8), HIDDEN, dtype=dtype, device=device)
    return rows[:, :tokens].masked_fill_(seen_TT, 0.0)[None, None]


def layer_kinds(model: Any) -> dict[str, int | None]:
    """Return the kinds of attention layer of a model, each with its window."""
    config = model.config.get_text_config()
    lists = (getattr(config, name, None) for name in ("layer_types", "layers_block_type", "attention_layers"))
    kinds = next(filter(None, lists), None)
    window = getattr(config, "sliding_window", None)
    if kinds is None:  # older architectures slide in every layer or in none
        return {"full_attention": window}
    return {kind: window if kind == "sliding_attention" else None for kind in dict.fromkeys(kinds)}


def run_tree(model: Any, tree: PrefixTree, method: str, read_N: Tensor | int, **options: Any) -> Any:
    """Return the model's output for the tree; its logits (1, N, V) are those at ``read_N``, places in the tree.

    An int reads that many last tokens, 0 all. Call it within ``attending(model, method)``, which must last until backward
    has ended. ``cascade`` ignores windows: choose it by ``fitting``.
    """
    device = model.device
    # Tell each layer which tokens see which: by parts, or by one mask (1, 1, T, T) for each kind of layer.
    if method == "cascade":
        visibility: dict[str, Any] = {"attention_mask": None, "tree_parts": parts_of(tree)}
    else:
        # Made in the precision of attention, which every layer would else cast it to. Windows that hide nothing are left out.
        autocast = torch.is_autocast_enabled(device.type)
        dtype = torch.get_autocast_dtype(device.type) if autocast else model.dtype
        masks = {
            kind: mask_of(tree, device, dtype, window if window and window < tree.longest else None)
            for kind, window in layer_kinds(model).items()
        }
        visibility = {"attention_mask": masks if "sliding_attention" in masks else next(iter(masks.values()))}
    # Tokens (1, T) at their positions in their own sequences (1, T).
    return model(
        input_ids=torch.tensor([tree.ids], device=device),
        position_ids=torch.tensor([tree.depths], device=device),
        logits_to_keep=read_N,
        **visibility,
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
    """Return the method that ``wanted`` names, or with "auto" the best one that this model and device can take.

    Without any, return None and the reason why whole sequences must do.

    Raises:
        ValueError: the method is given by name and can't be had.
    """
    if wanted == "off":
        return None, "turned off"
    reason: str | None = None
    for method in METHODS if wanted == "auto" else (wanted,):
        reason = reason_against(model, method)
        if reason is None:
            return method, ""
    if wanted != "auto":
        raise ValueError(f"--actor.shared_prompts is {wanted!r}, and {reason}; choose auto or off")
    return None, str(reason)


def reason_against(model: Any, method: str) -> str | None:
    """Return why a model, in evaluation mode, can't take trees in this way; None if a trial on a few tokens succeeds."""
    if strange := sorted(set(layer_kinds(model)) - PLAIN_LAYERS):
        return f"{_name(model)} has layers of kind {', '.join(strange)}, whose state can't branch"
    if method == "cascade" and model.device.type != "cpu":
        return "its kernel is the CPU's"
    if method == "mask" and "flash" in (attention := model.config._attn_implementation):
        return f"{attention} takes no such mask"
    try:
        error = _error_on_a_trial(model, method)
    except Exception as raised:  # each architecture has its own errors for trees that it can't take
        return f"{_name(model)} refuses: {type(raised).__name__}: {raised}"
    exact = model.dtype == torch.float32 and not torch.is_autocast_enabled(model.device.type)
    close = 1e-3 if exact else 0.1  # of the logits' spread; a trained model's roundings in bf16 come to some 0.02
    return None if error <= close else f"{_name(model)} gives other logits for a tree than for its sequences"


def _name(model: Any) -> str:
    return type(unwrapped(model)).__name__


@torch.no_grad()
def _error_on_a_trial(model: Any, method: str) -> float:
    """Return how far logits are from those of plain sequences: root mean square, relative to their spread."""
    # Three sequences of varied tokens with a common beginning. No window is shorter, or the cascade wouldn't be asked.
    size = model.config.get_text_config().vocab_size
    half = min([12, *_windows(model)]) // 2
    runs = [tuple((7 * i * i + 3) % size for i in range(start, start + half)) for start in range(0, 4 * half, half)]
    sequences = [runs[0] + run for run in runs[1:]]
    # The tree at once (T, V), and each of its sequences of S tokens alone (S, V).
    tree = grow(sequences)
    with attending(model, method):
        tree_TV = run_tree(model, tree, method, 0, use_cache=False).logits[0].float()
    plain_SV = [
        model(input_ids=torch.tensor([one], device=model.device), use_cache=False).logits[0].float()
        for one in sequences
    ]
    errors = [
        ((tree_TV[list(path)] - plain).square().mean().sqrt() / plain.std()).item()
        for path, plain in zip(tree.paths, plain_SV, strict=True)
    ]
    return max(errors)


def fitting(model: Any, longest: int, method: str) -> str:
    """Return ``mask`` if a layer's window is shorter than the longest sequence, else ``method``."""
    return "mask" if min([longest, *_windows(model)]) < longest else method


def _windows(model: Any) -> list[int]:
    return [window for window in layer_kinds(model).values() if window]
