"""A transformers model as an engine: token in, token out, with the log-probabilities that were sampled from.

Dimensions: B rows of a batch, U distinct prompts among them, T tokens (of a tree: all of it), S tokens of the longest
prompt, V vocabulary, H heads, D size of a head.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from trainers.engines.encoder import Encoder, EncodingReader, end_tokens, pad_token
from trainers.engines.prefix_tree import Tokens, grow, neighbours
from trainers.engines.protocol import Failed, Reply, Request, Sampling
from trainers.engines.tree_attention import attending, fitting, method_for, run_tree, unwrapped


@dataclass(slots=True)
class _Row:
    """One reply while it grows."""

    request: Request
    prompt_ids: tuple[int, ...]
    rng: Random
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False

    def take(self, token: int, logprob: float, ends: frozenset[int], encoder: Encoder) -> None:
        self.ids.append(token)
        self.logprobs.append(logprob)
        stop = self.request.sampling.stop
        self.ended = token in ends or bool(stop and stop in encoder.decode([token]))

    @property
    def most_tokens(self) -> int:
        """The tokens of the prompt and the longest reply."""
        return len(self.prompt_ids) + self.request.sampling.max_new_tokens

    @property
    def done(self) -> bool:
        return self.ended or len(self.ids) >= self.request.sampling.max_new_tokens


class LocalEngine(EncodingReader):
    """A causal language model of transformers and its tokenizer."""

    def __init__(
        self, model: Any, encoder: Encoder, rows: int = 32, max_tokens: int = 32768, sharing: str | None = "auto"
    ) -> None:
        """Generate at most ``rows`` replies at a time, and ``max_tokens`` of prompts and replies, or one reply.

        ``sharing`` is the method by which shared beginnings of prompts are computed once, see ``method_for``; None
        computes every prompt in full.
        """
        self.model, self.encoder, self.rows, self.max_tokens = model, encoder, rows, max_tokens
        self._cache = cache_name(model)
        self._sharing = sharing
        if sharing == "auto":
            with _evaluating(model):
                self._sharing, refused = method_for(model, "auto")
            if not self._sharing:
                warnings.warn(f"prompts are read in full, not what they share once: {refused}", stacklevel=2)
        self._ends = end_tokens(model, encoder.tokenizer)
        self.pad = pad_token(encoder.tokenizer, self._ends)

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Sample every request at its temperature; batches hold prompts of similar length."""
        rows = [
            _Row(request, self.encoder.encode(request.prompt, request.sampling.prefill), Random(request.seed))
            for request in requests
        ]
        with _evaluating(self.model), torch.inference_mode():
            for batch in self._batches(rows):
                self._generate_batch(batch)
        return [
            Reply(
                text=self.encoder.decode(row.ids),
                prefix=row.request.sampling.prefill,
                truncated=not row.ended,
                prompt_ids=row.prompt_ids,
                ids=tuple(row.ids),
                logprobs=tuple(row.logprobs),
            )
            for row in rows
        ]

    def _batches(self, rows: Sequence[_Row]) -> list[list[_Row]]:
        """Cut rows into batches of similar length, as large as fit; of equal length if padding might do harm."""
        batches: list[list[_Row]] = []
        for row in sorted(rows, key=lambda row: (row.most_tokens, row.prompt_ids)):
            last = batches[-1] if batches else []
            full = len(last) == self.rows or (len(last) + 1) * row.most_tokens > self.max_tokens
            if not last or full or not (self._sharing or len(row.prompt_ids) == len(last[0].prompt_ids)):
                batches.append([])
            batches[-1].append(row)
        return batches

    def _generate_batch(self, rows: list[_Row]) -> None:
        # Read the prompts: logits of each first token (B, V), a cache of S places, the mask of its padding (B, S).
        logits_BV, cache, mask_BT = self._prefill(rows)
        padded = not mask_BT.all()
        while True:
            # Append one token per row, and drop finished rows from batch and cache: they cost as much as growing ones.
            self._sample(rows, logits_BV)
            growing = [i for i, row in enumerate(rows) if not row.done]
            if not growing:
                return
            if len(growing) < len(rows):
                growing_B = torch.tensor(growing, device=mask_BT.device)
                cache.reorder_cache(growing_B)
                mask_BT, rows = mask_BT[growing_B], [rows[i] for i in growing]
            # Feed the new tokens (B, 1), each at its position in its own row; the mask grows by their place (B, T + 1).
            last_B1 = torch.tensor([[row.ids[-1]] for row in rows], device=mask_BT.device)
            mask_BT = torch.cat([mask_BT, torch.ones_like(mask_BT[:, :1])], dim=1)
            out = self.model(
                input_ids=last_B1,
                attention_mask=mask_BT if padded else None,  # layers with a state misread one in single steps
                position_ids=mask_BT.sum(dim=1, keepdim=True) - 1,
                use_cache=True,
                **{self._cache: cache},
            )
            logits_BV = out.logits[:, -1]

    def _prefill(self, rows: list[_Row]) -> tuple[Tensor, Any, Tensor]:
        """Return the first logits (B, V), the cache, and the mask of padding (B, S); shared beginnings are computed once.

        If the model's state can't branch, only equal prompts share.
        """
        prompts = [row.prompt_ids for row in rows]
        if self._sharing:
            logits_BV, cache = prefill(self.model, self._cache, prompts, self._sharing, self.max_tokens)
            return logits_BV, cache, left_padded(prompts, self.pad, self.model.device)[1]
        # One pass over the distinct prompts (U, S), logits of the last places only (U, 1, V).
        distinct = list(dict.fromkeys(prompts))
        ids_US, mask_US = left_padded(distinct, self.pad, self.model.device)
        out = self.model(
            input_ids=ids_US, attention_mask=mask_US, position_ids=positions(mask_US), use_cache=True, logits_to_keep=1
        )
        # Copy each prompt's logits and cache to its rows: U becomes B.
        source_B = torch.tensor([distinct.index(prompt) for prompt in prompts], device=ids_US.device)
        cache = out[self._cache]
        cache.reorder_cache(source_B)
        return out.logits[:, -1][source_B], cache, mask_US[source_B]

    def _sample(self, rows: list[_Row], logits_BV: Tensor) -> None:
        """Append one token per row, by inverting the cumulative distribution at the row's own uniform number."""
        # The distribution to sample from (B, V).
        temperature_B1 = torch.tensor([[row.request.sampling.temperature] for row in rows], device=logits_BV.device)
        scores_BV = narrowed(logits_BV.float() / temperature_B1, [row.request.sampling for row in rows])
        logprobs_BV = torch.log_softmax(scores_BV, dim=-1)
        # The first token whose cumulative probability exceeds the number (B, 1). In fp64, which resolves unlikely tokens;
        # the number is scaled by the last sum, which rounding keeps off 1.
        cumulative_BV = logprobs_BV.double().exp().cumsum(dim=-1)
        uniform_B1 = torch.tensor([[row.rng.random()] for row in rows], dtype=torch.float64, device=logits_BV.device)
        token_B1 = torch.searchsorted(cumulative_BV, uniform_B1 * cumulative_BV[:, -1:], right=True)
        token_B1 = token_B1.clamp(max=logits_BV.shape[-1] - 1)
        # To the rows in two transfers, not one per number.
        logprob_B1 = logprobs_BV.gather(1, token_B1)
        for row, token, logprob in zip(rows, token_B1[:, 0].tolist(), logprob_B1[:, 0].tolist(), strict=True):
            row.take(token, logprob, self._ends, self.encoder)


def load_engine(
    folder: str, rows: int = 32, template_options: dict[str, Any] | None = None, max_tokens: int = 32768
) -> LocalEngine:
    """Load the model of a transformers folder or hub id, to play with: bf16 on a GPU, fp32 on a CPU.

    Raises:
        ValueError: there is no such model.
    """
    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except OSError as error:
        raise ValueError(f"no model at {folder!r} ({error}); give a transformers folder or a hub id") from error
    return LocalEngine(model.to(torch.device(device)), Encoder(tokenizer, template_options), rows, max_tokens)


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Turn dropout off, and leave each module as it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def prefill(model: Any, cache_name: str, prompts: Sequence[Tokens], method: str, max_tokens: int) -> tuple[Tensor, Any]:
    """Return logits after each prompt (B, V), and a cache of B rows whose S places end with the prompts.

    At most ``max_tokens`` of the trees are computed at a time, or one prompt.
    """
    longest = max(map(len, prompts))
    # One forward pass per group of neighbours; it yields logits, and keys and values by layer, of the group's rows.
    groups = neighbours(prompts, max_tokens)
    trees = [_one_tree(model, cache_name, [prompts[i] for i in group], method, longest) for group in groups]
    # From the groups' order back to that of the prompts.
    row_B = torch.tensor([i for group in groups for i in group], device=model.device).argsort()
    cache = DynamicCache()
    for layer in range(len(trees[0][1])):
        # Keys and values (B, H, S, D). Popped, so that the groups' copies are freed at once: a cache is large.
        pairs = [layers.pop(0) for _, layers in trees]
        keys, values = (torch.cat(tensors)[row_B] for tensors in zip(*pairs, strict=True))
        cache.update(keys, values, layer)
    return torch.cat([logits for logits, _ in trees])[row_B], cache


def _one_tree(
    model: Any, cache_name: str, prompts: Sequence[Tokens], method: str, longest: int
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Return logits (B, V), and keys and values (B, H, S, D) by layer, of prompts computed as one tree."""
    tree = grow(prompts)
    method = fitting(model, tree.longest, method)
    # Read logits at the last place of each distinct prompt (U): equal prompts end at the same one.
    last_B = torch.tensor([path[-1] for path in tree.paths], device=model.device)
    read_U, row_B = last_B.unique(return_inverse=True)
    cache: Any = DynamicCache()  # without the config: sliding layers keep all places, since each row has others
    with attending(model, method):
        out = run_tree(model, tree, method, read_U, use_cache=True, **{cache_name: cache})
    # Each row's own places in the tree (B, S); padding on the left copies place 0, and is masked later.
    place_BS = torch.tensor([[0] * (longest - len(path)) + list(path) for path in tree.paths], device=model.device)
    return out.logits[0][row_B], [
        (_rows(layer.keys, place_BS), _rows(layer.values, place_BS)) for layer in cache.layers
    ]


def _rows(tree_1HTD: Tensor, place_BS: Tensor) -> Tensor:
    """Copy each row's places out of the tree: (B, H, S, D)."""
    return tree_1HTD[0][:, place_BS].transpose(0, 1)


def narrowed(scores_BV: Tensor, samplings: Sequence[Sampling]) -> Tensor:
    """Set to minus infinity the tokens that a row's sampling leaves out: first by top-k, then by top-p of the rest.

    Greedy keeps the likeliest token alone. The likeliest is never left out, and top-p keeps as many as first reach it.
    """
    # All greedy: no sorting, since that takes longer than a small model's step. Their best scores (B, 1), infinity elsewhere.
    if all(sampling.greedy for sampling in samplings):
        best_B1 = scores_BV.argmax(dim=-1, keepdim=True)
        nothing_BV = torch.full_like(scores_BV, float("-inf"))
        return nothing_BV.scatter(1, best_B1, scores_BV.gather(1, best_B1))
    # Greedy beside other rows is top-k with k 1. Rows that leave out nothing, the usual case, are done.
    top_k = [1 if sampling.greedy else sampling.top_k or scores_BV.shape[-1] for sampling in samplings]
    top_p = [1.0 if sampling.greedy else sampling.top_p for sampling in samplings]
    if min(top_k) >= scores_BV.shape[-1] and min(top_p) == 1:
        return scores_BV
    # Top-k: leave out ranks from k on. Of equal scores, the lower token ranks first.
    sorted_BV, order_BV = scores_BV.sort(dim=-1, descending=True, stable=True)
    rank_V = torch.arange(scores_BV.shape[-1], device=scores_BV.device)
    out_BV = rank_V >= torch.tensor(top_k, device=scores_BV.device)[:, None]
    # Top-p: leave out tokens whose likelier ones reach p already. Not with p 1, where rounding could leave out the last.
    probability_BV = torch.softmax(sorted_BV.masked_fill(out_BV, float("-inf")), dim=-1)
    before_BV = probability_BV.cumsum(dim=-1) - probability_BV
    top_p_B1 = torch.tensor(top_p, device=scores_BV.device)[:, None]
    out_BV |= (top_p_B1 < 1) & (before_BV >= top_p_B1)
    out_BV[:, 0] = False
    # Back from ranks to tokens (B, V).
    return scores_BV.masked_fill(torch.zeros_like(out_BV).scatter(1, order_BV, out_BV), float("-inf"))


def cache_name(model: Any) -> str:
    """Return the name of the cache in a model's ``forward`` and output; it differs between versions of transformers."""
    known = inspect.signature(unwrapped(model).forward).parameters  # peft's wrapper takes anything
    return next(name for name in ("cache", "past_key_values", "cache_params") if name in known)


def left_padded(rows: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[Tensor, Tensor]:
    """Return ids and attention mask (B, S), padded on the left to one length."""
    longest = max(map(len, rows))
    ids_BS = torch.tensor([[pad] * (longest - len(row)) + list(row) for row in rows], device=device)
    mask_BS = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids_BS, mask_BS


def positions(mask_BT: Tensor) -> Tensor:
    """Return positions (B, T) that count from each row's first attended token."""
    return (mask_BT.cumsum(dim=1) - 1).clamp(min=0)
