"""Requests to engines, the log-probabilities of a plain forward pass, and checks that every engine of tokens must pass."""

from __future__ import annotations

from collections import Counter

import torch

from trainers.engines import Request, Sampling

PREFILL = r"\boxed{"
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


def check_ends(playing):
    """A reply holds its end token, once and last, and its text does not."""
    end = playing.encoder.tokenizer.eos_token_id
    ended = [reply for reply in playing.generate(requests(60, Sampling(20))) if end in reply.ids]
    assert 10 < len(ended) < 60
    for reply in ended:
        assert reply.ids.index(end) == len(reply.ids) - 1
        assert not reply.truncated
        assert "<end>" not in reply.text


def check_prefill_and_stop(playing):
    """A prefill belongs to the prompt; the first token that holds the stop ends the reply and stays in it."""
    tokens = playing.encoder.tokenizer
    closing, opening = tokens.convert_tokens_to_ids(["}", PREFILL])
    replies = playing.generate(requests(60, Sampling(20, prefill=PREFILL, stop="}")))
    for request, reply in zip(requests(60), replies, strict=True):
        assert reply.prompt_ids == (*playing.encoder.encode(request.prompt), opening)
        assert reply.prefix == PREFILL
        assert len(reply.ids) == len(reply.logprobs)
        assert reply.text == tokens.decode(reply.ids, skip_special_tokens=True)
    closed = [reply for reply in replies if closing in reply.ids]
    assert 10 < len(closed) < 60
    assert all(reply.ids.index(closing) == len(reply.ids) - 1 and not reply.truncated for reply in closed)


def check_first_tokens(playing, model, temperature):
    """First tokens are as frequent as the model's own probabilities, within four standard deviations of chi-square."""
    count = 2000
    with torch.no_grad():
        logits_V = model(torch.tensor([playing.encoder.encode(PROMPTS[2])])).logits[0, -1].double()
    expected_V = count * torch.softmax(logits_V / temperature, dim=-1)
    asked = [Request(PROMPTS[2], f"often/{i}", Sampling(1, temperature)) for i in range(count)]
    seen = Counter(reply.ids[0] for reply in playing.generate(asked))
    common = [token for token, expected in enumerate(expected_V.tolist()) if expected >= 5]
    terms = [(seen[token] - expected_V[token].item()) ** 2 / expected_V[token].item() for token in common]
    assert len(common) > 5
    assert sum(terms) < len(common) + 4 * (2 * len(common)) ** 0.5
