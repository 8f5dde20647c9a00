"""Log-probabilities of replies under a model, by two ways that agree: a prefix tree, or a padded batch; and the batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from trainers.engines.prefix_tree import PrefixTree, Tokens, grow, neighbours
from trainers.engines.tree_attention import run_tree, unwrapped
from trainers.samples import Sample

ROWS = 256  # of logits whose entropy is computed at a time


def tree_of(samples: Sequence[Sample]) -> PrefixTree:
    """Grow the tree of the samples' tokens, each shared one once; without the last, which predicts nothing."""
    return grow([fed(sample) for sample in samples])


def fed(sample: Sample) -> Tokens:
    """Return the tokens that a model reads to predict a sample's reply."""
    return (*sample.prompt_ids, *sample.ids[:-1])


def tree_logprobs(model: Any, samples: Sequence[Sample], method: str, temperature: float) -> tuple[Tensor, Tensor]:
    """Return log-probability and entropy (detached) of all N reply tokens, from one pass over their prefix tree.

    Call it within ``attending``, as ``run_tree`` must be.
    """
    tree = tree_of(samples)
    # the logits that predict a reply token are at the place before it in the tree; replies may share places
    places = [
        place for sample, path in zip(samples, tree.paths, strict=True) for place in path[len(sample.prompt_ids) - 1 :]
    ]
    # compute the head at the U distinct places alone, and read each of the N tokens from its row
    read_U, row_N = torch.tensor(places, device=model.device).unique(return_inverse=True)
    logits_UV = run_tree(model, tree, method, read_U, use_cache=False).logits[0]
    return _scores(logits_UV, row_N, _targets(samples, model), temperature)


def padded_logprobs(model: Any, samples: Sequence[Sample], pad: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Return the same from whole samples in one batch, padded on the right, which no kind of layer minds."""
    rows = [fed(sample) for sample in samples]
    longest = max(map(len, rows))
    ids_BS = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], device=model.device)
    mask_BS = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=model.device)
    # the logits at place s predict token s + 1: from the prompt's last token to the last but one of the reply
    places = [(b, s) for b, row in enumerate(rows) for s in range(len(samples[b].prompt_ids) - 1, len(row))]
    row_N, place_N = torch.tensor(places, device=model.device).T
    with _read_only(model, row_N, place_N):
        logits_NV = model(input_ids=ids_BS, attention_mask=mask_BS, use_cache=False).logits[0]
    return _scores(logits_NV, torch.arange(len(places), device=model.device), _targets(samples, model), temperature)


@contextlib.contextmanager
def _read_only(model: Any, row_N: Tensor, place_N: Tensor) -> Iterator[None]:
    """Give the model's head only the places that are read: logits come as (1, N, V) instead of (B, S, V)."""
    head = unwrapped(model).get_output_embeddings()
    handle = head.register_forward_pre_hook(lambda _, hidden: (hidden[0][row_N, place_N][None],))
    try:
        yield
    finally:
        handle.remove()


def _targets(samples: Sequence[Sample], model: Any) -> Tensor:
    return torch.tensor([token for sample in samples for token in sample.ids], device=model.device)


def _scores(logits_UV: Tensor, row_N: Tensor, target_N: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    # fp32 before the softmax over V; the temperature is the sampler's
    logits_UV = logits_UV.float() if temperature == 1 else logits_UV.float() / temperature
    logprobs_UV = torch.log_softmax(logits_UV, dim=-1)
    # some rows at a time: exp() of all would double the memory of the logits
    with torch.no_grad():
        entropy_U = torch.cat([-(some.exp() * some).sum(dim=-1) for some in logprobs_UV.split(ROWS)])
    return logprobs_UV[row_N, target_N], entropy_U[row_N]


Pair = tuple[Sample, float]
"""A sample and its advantage."""


def tree_batches(pairs: Sequence[Pair], max_tokens: int, max_samples: int | None = None) -> list[list[Pair]]:
    """Cut samples into batches of neighbours in a prefix tree: at most ``max_tokens`` of its tokens each, or one sample."""
    groups = neighbours([fed(sample) for sample, _ in pairs], max_tokens, max_samples)
    return [[pairs[i] for i in group] for group in groups]


def padded_batches(pairs: Sequence[Pair], max_tokens: int, max_samples: int | None = None) -> list[list[Pair]]:
    """Cut samples into batches of similar length: at most ``max_tokens`` each, padding included, or one sample."""
    batches: list[list[Pair]] = []
    longest = 0
    for pair in sorted(pairs, key=lambda pair: (len(pair[0].prompt_ids), len(pair[0].ids))):
        rows, longest = len(batches[-1]) if batches else 0, max(longest, len(fed(pair[0])))
        if not batches or (rows + 1) * longest > max_tokens or rows == max_samples:
            batches.append([])
            longest = len(fed(pair[0]))
        batches[-1].append(pair)
    return batches
