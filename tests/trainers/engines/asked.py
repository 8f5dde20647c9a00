"""What the tests of engines ask, and what a plain forward pass says of the answers."""

from __future__ import annotations

import torch

from trainers.engines import Request, Sampling

PROMPTS = ["plum", "fig pear kiwi", "lime date plum fig pear", "kiwi kiwi", "date"]


def requests(count: int, sampling: Sampling | None = None) -> list[Request]:
    return [Request(PROMPTS[i % len(PROMPTS)], f"seed/{i}", sampling or Sampling(12)) for i in range(count)]


def said(replies):
    return [(reply.text, reply.ids, reply.truncated) for reply in replies]


def logprobs_by_one_pass(model, prompt_ids, ids, temperature):
    """Prompt and reply in one plain forward pass, alone, nothing padded."""
    with torch.no_grad():
        logits_TV = model(torch.tensor([[*prompt_ids, *ids]])).logits[0, len(prompt_ids) - 1 : -1]
    return torch.log_softmax(logits_TV.double() / temperature, dim=-1)[range(len(ids)), list(ids)]
