"""A model reads the prompts of a batch, each shared beginning once, and every row goes on from its own copy of the cache.

Dimensions: B rows, S prompt tokens, padded on the left, H key-value heads, D size of a head, T tokens of a tree, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from trainers.engines.prefix_tree import Tokens, grow, neighbours
from trainers.engines.tree_attention import attending, fitting, run_tree


def prefill(model: Any, cache_name: str, prompts: Sequence[Tokens], method: str, max_tokens: int) -> tuple[Tensor, Any]:
    """Logits after each prompt (B, V), and a cache of B rows whose S places end with the prompts.

    At most ``max_tokens`` of the trees are computed at a time, or one prompt.
    """
    longest = max(map(len, prompts))
    groups = neighbours(prompts, max_tokens)
    parts = [_one_tree(model, cache_name, [prompts[i] for i in group], method, longest) for group in groups]
    row_B = torch.tensor([i for group in groups for i in group], device=model.device).argsort()
    cache = DynamicCache()
    for layer in range(len(parts[0][1])):
        pairs = [layers.pop(0) for _, layers in parts]  # given free at once: a cache is large
        keys, values = (torch.cat(tensors)[row_B] for tensors in zip(*pairs, strict=True))
        cache.update(keys, values, layer)
    return torch.cat([logits for logits, _ in parts])[row_B], cache


def _one_tree(
    model: Any, cache_name: str, prompts: Sequence[Tokens], method: str, longest: int
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Logits, and keys and values by layer, of rows that are one tree."""
    tree = grow(prompts)
    method = fitting(model, tree.longest, method)
    last_B = torch.tensor([path[-1] for path in tree.paths], device=model.device)
    read_U, row_B = last_B.unique(return_inverse=True)
    cache: Any = DynamicCache()  # without the config: sliding layers keep all places, since each row has others
    with attending(model, method):
        out = run_tree(model, tree, method, read_U, use_cache=True, **{cache_name: cache})
    place_BS = torch.tensor([[0] * (longest - len(path)) + list(path) for path in tree.paths], device=model.device)
    return out.logits[0][row_B], [
        (_rows(layer.keys, place_BS), _rows(layer.values, place_BS)) for layer in cache.layers
    ]


def _rows(tree_1HTD: Tensor, place_BS: Tensor) -> Tensor:
    """Each row's own places of what was computed for the tree: (B, H, S, D)."""
    return tree_1HTD[0][:, place_BS].transpose(0, 1)
