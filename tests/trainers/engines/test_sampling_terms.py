"""What an evaluation's protocol asks of sampling: greedy, top-k and top-p, here and at an endpoint."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat_server import Answer, says

torch = pytest.importorskip("torch", reason="scores are tensors")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("openai", reason="endpoints are asked through OpenAI's client")

from tests.trainers import tiny_models, tiny_world
from tests.trainers.engines.asked import PROMPTS
from trainers.engines import Failed, Request, Sampling
from trainers.engines.encoder import Encoder
from trainers.engines.endpoint import EndpointEngine
from trainers.engines.local import LocalEngine, narrowed

GREEDY = Sampling(12, greedy=True)


def kept(scores, sampling):
    """The tokens that a sampling leaves, one row by the book: sorted, the first k, and of these as many as first reach p."""
    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    order = order[: 1 if sampling.greedy else sampling.top_k or len(scores)]
    weights = [2.0 ** scores[token] for token in order]
    reached, count = 0.0, 0
    while count < len(order) and (count == 0 or sampling.top_p == 1 or reached < sampling.top_p * sum(weights)):
        reached += weights[count]
        count += 1
    return set(order[:count] if not sampling.greedy else order)


# Powers of two and odd fractions of them, so that no sum stands at a border where rounding would decide.
SCORES = st.lists(st.integers(-4, 4), min_size=1, max_size=9)
SAMPLINGS = st.builds(
    lambda greedy, top_p, top_k: Sampling(1, greedy=greedy, top_p=top_p, top_k=top_k),
    st.booleans(),
    st.sampled_from([1.0, 0.137, 0.371, 0.517, 0.831, 0.953]),
    st.integers(0, 10),
)


@given(st.lists(SCORES, min_size=1, max_size=4), st.data())
@settings(max_examples=300, deadline=None)
def test_what_is_left_to_sample_from_is_what_the_book_says(rows, data):
    size = max(map(len, rows))
    rows = [[*row, *[-5] * (size - len(row))] for row in rows]
    samplings = [data.draw(SAMPLINGS) for _ in rows]
    left_BV = narrowed(torch.tensor(rows, dtype=torch.float32) * torch.log(torch.tensor(2.0)), samplings)
    for row, sampling, left_V in zip(rows, samplings, left_BV, strict=True):
        assert set(torch.isfinite(left_V).nonzero()[:, 0].tolist()) == kept(row, sampling)


def test_scores_that_stay_are_not_changed():
    scores_BV = torch.randn(3, 50)
    assert narrowed(scores_BV, [Sampling(1)] * 3) is scores_BV
    left_BV = narrowed(scores_BV, [Sampling(1, top_k=5), Sampling(1, greedy=True), Sampling(1)])
    assert torch.isfinite(left_BV).sum(dim=1).tolist() == [5, 1, 50]
    assert torch.equal(left_BV[torch.isfinite(left_BV)], scores_BV[torch.isfinite(left_BV)])


def test_a_row_that_nothing_bends_keeps_every_token_beside_one_that_is_bent():
    steep_V = 10 * torch.randn(1000, generator=torch.Generator().manual_seed(0))  # rounded, few shares add up to 1
    left_BV = narrowed(torch.stack([steep_V, steep_V]), [Sampling(1, top_p=0.5), Sampling(1)])
    assert torch.isfinite(left_BV).sum(dim=1).tolist() == [1, 1000]


def engine(architecture="llama"):
    return LocalEngine(tiny_models.model(architecture), Encoder(tiny_world.tokenizer()))


@pytest.mark.parametrize("architecture", tiny_models.ARCHITECTURES)
def test_greedy_is_what_transformers_itself_decodes(architecture):
    playing = engine(architecture)
    replies = playing.generate([Request(prompt, prompt, GREEDY) for prompt in PROMPTS])
    for reply in replies:
        expected = playing.model.generate(
            torch.tensor([reply.prompt_ids]), do_sample=False, max_new_tokens=12, pad_token_id=playing.pad
        )[0, len(reply.prompt_ids) :]
        assert list(reply.ids) == expected.tolist()
    assert len({reply.ids for reply in replies}) > 1


def test_greedy_needs_no_chance_and_looks_at_no_temperature():
    hot = Sampling(12, temperature=3.0, greedy=True)
    replies = engine().generate([Request(PROMPTS[0], str(seed), terms) for seed in range(5) for terms in (GREEDY, hot)])
    assert len({reply.ids for reply in replies}) == 1
    assert all(logprob == 0 for logprob in replies[0].logprobs)  # of the distribution sampled from


def test_rows_of_one_batch_are_sampled_each_by_its_own_terms():
    playing = engine()
    narrow, wide = Sampling(1, 3.0, top_k=2), Sampling(1, 3.0)
    replies = playing.generate([Request(PROMPTS[0], str(i), (narrow, wide)[i % 2]) for i in range(200)])
    likeliest = playing.generate([Request(PROMPTS[0], "0", GREEDY)])[0].ids[0]
    firsts = [{reply.ids[0] for reply in replies[i::2]} for i in (0, 1)]
    assert len(firsts[0]) == 2 < len(firsts[1])
    assert likeliest in firsts[0]


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.1}, "top_p is 1.1"),
        ({"top_k": -1}, "top_k is -1"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms, said):
    with pytest.raises(ValueError, match=said):
        Sampling(**terms)


TERMS = {
    "greedy": (Sampling(20, 0.7, greedy=True), {"temperature": 0}),
    "top_p": (Sampling(20, 0.7, top_p=0.8), {"temperature": 0.7, "top_p": 0.8}),
    "top_k": (Sampling(20, 0.7, top_k=20), {"temperature": 0.7, "top_k": 20}),
}


@pytest.mark.parametrize("terms", TERMS)
def test_an_endpoint_is_sent_the_terms_that_bend_and_no_others(serve, terms):
    server = serve(lambda *_: says("hi"))
    sampling, sent = TERMS[terms]
    EndpointEngine(server.url, "m").generate([Request("p", "s", sampling)])
    assert {
        name: server.received[0][name] for name in server.received[0] if name in ("temperature", "top_p", "top_k")
    } == sent


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}, (7, 2)),
        ({"prompt_tokens": "7", "completion_tokens": 2}, None),
        ({"prompt_tokens": 7}, None),
        ("many", None),
        (None, None),
    ],
)
def test_what_an_endpoint_bills_is_told_where_it_is_two_numbers(serve, usage, told):
    row = {"choices": [{"message": {"content": "hi"}}], "usage": usage}
    server = serve(lambda *_: Answer(json.dumps(row).encode()))
    (reply,) = EndpointEngine(server.url, "m").generate([Request("p", "s", Sampling(5))])
    assert (reply.text, reply.usage) == ("hi", told)


def test_answers_are_yielded_as_they_come_with_their_places(serve):
    server = serve(lambda prompt, _: says(prompt, after=0.4 if prompt == "slow" else 0.0))
    requests = [Request(prompt, "s", Sampling(5)) for prompt in ("slow", "a", "b")]
    answered = list(EndpointEngine(server.url, "m", concurrency=2).as_answered(requests))
    assert [reply.text for _, reply in answered] == ["a", "b", "slow"]
    assert [i for i, _ in answered] == [1, 2, 0]


def test_requests_are_taken_when_it_is_their_turn_and_few_are_under_way(serve):
    taken = []

    def requests():
        for i in range(20):
            taken.append(i)
            yield Request(str(i), "s", Sampling(5))

    server = serve(lambda prompt, _: says(prompt, after=0.01))
    answers = EndpointEngine(server.url, "m", concurrency=3).as_answered(requests())
    assert taken == []
    seen = [next(answers)]
    assert len(taken) <= 3
    for answer in answers:
        seen.append(answer)
        assert len(taken) <= len(seen) + 3
    assert sorted(i for i, _ in seen) == list(range(20))
    assert server.most_at_work <= 3


def test_whoever_stops_iterating_sends_no_more(serve):
    server = serve(lambda prompt, _: says(prompt))
    answers = EndpointEngine(server.url, "m", concurrency=2).as_answered(
        Request(str(i), "s", Sampling(5)) for i in range(100)
    )
    next(answers)
    answers.close()
    assert len(server.received) <= 4


@pytest.mark.parametrize(("status", "refused"), [(400, True), (413, True), (422, True), (401, False), (404, False)])
def test_a_prompt_that_is_refused_is_told_from_an_endpoint_that_is_down(serve, status, refused):
    server = serve(lambda *_: Answer(b'{"error": {"message": "too long by 5 tokens"}}', status))
    (reply,) = EndpointEngine(server.url, "m", retries=0).generate([Request("p", "s", Sampling(5))])
    assert isinstance(reply, Failed)
    assert reply.refused is refused
    assert "too long by 5 tokens" in reply.reason
