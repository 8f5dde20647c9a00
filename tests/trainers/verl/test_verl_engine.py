"""verl's engines, asked for one reply at a time; the client is a fake, so no verl is needed."""

import asyncio
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="the tiny world's tokenizer stands beside its model")
from tests.trainers import tiny_world
from trainers.engines import Failed, Request, Sampling
from trainers.engines.encoder import Encoder
from trainers.verl.engine import ServedEngine

TOKENS = tiny_world.tokenizer()
PARAMS = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}
SIX = Sampling(6)


class Client:
    """Answers with what it was made with, and keeps what it was asked."""

    def __init__(self, words="plum fig", end=True, **answer):
        ids = [*TOKENS(words, add_special_tokens=False)["input_ids"], *[TOKENS.eos_token_id] * end]
        said = {"token_ids": ids, "log_probs": [-1.0] * len(ids), "stop_reason": "completed"}
        self.answer, self.asked = SimpleNamespace(**said | answer), {}

    async def generate(self, **asked):
        self.asked = asked
        await asyncio.sleep(0)
        if isinstance(self.answer.token_ids, Exception):
            raise self.answer.token_ids
        if self.answer.token_ids is None:
            await asyncio.sleep(60)
        return self.answer


def reply(client, sampling=SIX, deadline=5.0):
    engine = ServedEngine(client, Encoder(TOKENS), PARAMS, deadline)
    return asyncio.run(engine.generate(Request("plum", "a seed", sampling)))


def test_a_reply_holds_the_tokens_as_they_were_generated():
    client = Client()
    found = reply(client)
    assert (found.text, found.truncated) == ("plum fig", False)
    assert found.ids == tuple(client.answer.token_ids)
    assert found.logprobs == (-1.0,) * 3
    assert list(found.prompt_ids) == client.asked["prompt_ids"]
    assert client.asked["sampling_params"] == PARAMS | {"max_tokens": 6, "stop_token_ids": []}


def test_a_prefill_belongs_to_the_prompt_and_a_stop_ends_at_the_tokens_that_hold_it():
    client = Client("2 }", end=False)
    found = reply(client, Sampling(6, prefill="\\boxed{", stop="}"))
    assert found.prefix == "\\boxed{"
    assert TOKENS.decode(found.prompt_ids).endswith("\\boxed{")
    assert client.asked["sampling_params"]["stop_token_ids"] == [TOKENS.convert_tokens_to_ids("}")]
    assert not found.truncated
    assert not reply(client, Sampling(1, prefill="\\boxed{", stop="}")).truncated  # at full length, too
    assert reply(client, Sampling(1)).truncated


@pytest.mark.parametrize(
    ("words", "end", "truncated"), [("plum fig", False, True), ("plum", True, False), ("fig", False, False)]
)
def test_a_reply_of_full_length_without_its_end_is_truncated(words, end, truncated):
    assert reply(Client(words, end), Sampling(2)).truncated is truncated


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"stop_reason": "aborted"}, "'aborted'"),
        ({"token_ids": [], "log_probs": None}, "after 0 tokens"),
        ({"token_ids": RuntimeError("gone")}, "RuntimeError: gone"),
        ({"token_ids": None}, "no reply within 0.05 s"),
    ],
)
def test_what_the_infrastructure_did_not_do_is_a_failure(answer, said):
    found = reply(Client(**answer), deadline=0.05)
    assert isinstance(found, Failed)
    assert said in found.reason
