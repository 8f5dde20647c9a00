"""vLLM beside the trainer: what was sampled is what is recorded, and what was updated is what plays.

Run with ``-m vllm`` in an environment of its own; ``tests/environments/vllm.txt`` says which.
"""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import gc
import importlib.util
import random
import resource
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from tests.trainers import tiny_world
from tests.trainers.embedded import policies
from tests.trainers.embedded.policies import ADVANTAGES, policy_of
from tests.trainers.engines import vllm_models
from tests.trainers.engines.asked import PROMPTS, logprobs_by_one_pass, requests, said
from trainers.engines import Failed, Request, Sampling, vllm_terms
from trainers.engines import vllm as vllm_engine
from trainers.engines.vllm import VllmEngine

pytestmark = [
    pytest.mark.vllm,
    # found, not imported: the engine sets the environment before it imports it
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM isn't installed"),
]

PREFILL = r"\boxed{"
ADAPTATIONS = {"full": {}, "lora": {"ds": {"lora": {"rank": 3}}}}
VLLM = {
    "rollout": {"engine": "vllm", "max_new_tokens": 64, "performing": {"max_new_tokens": 8}},
    "data": {"max_len": 128},
}
NEAR = 1e-4  # in fp32 two ways to compute the same differ by about 1e-6


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    return {name: vllm_models.save(name, place / name) for name in vllm_models.ARCHITECTURES}


@pytest.fixture(scope="module")
def policy(folders):
    """A llama whose engine is not given other weights. The tests below that make another come after those with this."""
    return policy_of(folders["llama"], **VLLM)


@pytest.fixture
def playing(policy):
    return policy.engine


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_recorded_log_probabilities_are_those_of_a_plain_forward_pass(policy, temperature):
    replies = policy.engine.generate(requests(40, Sampling(12, temperature)))
    assert len({len(reply.ids) for reply in replies}) > 3
    for reply in replies:
        expected = logprobs_by_one_pass(policy.model, reply.prompt_ids, reply.ids, temperature)
        torch.testing.assert_close(torch.tensor(reply.logprobs).double(), expected, atol=NEAR, rtol=0)


@pytest.mark.parametrize("temperature", [1.0, 1.5])
def test_first_tokens_are_as_frequent_as_the_model_says(policy, temperature):
    """Although the generation config beside the weights asks for top-k, top-p and a penalty."""
    count = 2000
    with torch.no_grad():
        logits_V = policy.model(torch.tensor([policy.engine.encoder.encode(PROMPTS[2])])).logits[0, -1].double()
    expected_V = count * torch.softmax(logits_V / temperature, dim=-1)
    asked = [Request(PROMPTS[2], f"often/{i}", Sampling(1, temperature)) for i in range(count)]
    seen = Counter(reply.ids[0] for reply in policy.engine.generate(asked))
    common = [token for token, expected in enumerate(expected_V.tolist()) if expected >= 5]
    terms = [(seen[token] - expected_V[token].item()) ** 2 / expected_V[token].item() for token in common]
    assert len(common) > 5
    assert sum(terms) < len(common) + 4 * (2 * len(common)) ** 0.5  # four standard deviations of chi-square


def test_a_request_gets_the_same_reply_whatever_else_is_in_the_batch(playing):
    asked = requests(12, Sampling(8))
    expected = said(playing.generate(asked))
    assert len(set(expected)) > 9
    assert said(playing.generate(asked[::-1])) == expected[::-1]
    assert said(playing.generate(asked[4:5])) == expected[4:5]


def test_a_reply_holds_its_end_token_and_its_text_does_not(playing):
    end = playing.encoder.tokenizer.eos_token_id
    replies = playing.generate(requests(60, Sampling(20)))
    ended = [reply for reply in replies if end in reply.ids]
    assert 10 < len(ended) < 60
    for reply in ended:
        assert reply.ids.index(end) == len(reply.ids) - 1
        assert not reply.truncated
        assert "<end>" not in reply.text


def test_a_reply_that_runs_out_of_tokens_is_truncated_and_one_that_ends_with_its_last_is_not(playing):
    replies = playing.generate(requests(60, Sampling(3)))
    assert {reply.truncated for reply in replies if len(reply.ids) == 3} == {True, False}
    for reply in replies:
        assert reply.truncated == (reply.ids[-1] != playing.encoder.tokenizer.eos_token_id)
        assert not reply.truncated or len(reply.ids) == 3


def test_a_prefill_belongs_to_the_prompt_and_a_stop_ends_the_reply_and_stays_in_it(playing):
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
    assert any(closing in reply.ids[:-1] for reply in playing.generate(requests(60, Sampling(20, prefill=PREFILL))))


def test_a_prompt_that_is_too_long_fails_alone(playing):
    asked = requests(5, Sampling(4))
    expected = playing.generate(asked)
    first, failed, *others = playing.generate([asked[0], Request("plum " * 130, "long", Sampling(4)), *asked[1:]])
    assert isinstance(failed, Failed)
    assert failed.reason.startswith("vLLM refused a prompt of 132 tokens: ")
    assert said([first, *others]) == said(expected)


def test_a_prompt_is_counted_as_it_is_encoded(playing):
    (reply,) = playing.generate([Request("fig pear", "0", Sampling(1, prefill=PREFILL))])
    assert playing.count_tokens("fig pear", PREFILL) == len(reply.prompt_ids)


def chance():
    numpy = np.random.get_state()
    return random.getstate(), torch.random.get_rng_state().tolist(), numpy[1].tolist(), numpy[2]


def test_nothing_is_drawn_from_the_global_generators_and_none_is_seeded(folders):
    before = chance()
    policy = policy_of(folders["llama"], **VLLM)
    assert chance() == before
    policy.engine.generate(requests(5))
    policy.load_state(policy.state())
    assert chance() == before


@pytest.fixture
def cached(monkeypatch):
    """How many tokens of each finished prompt were not computed again."""
    counts: list[int] = []
    plain = vllm_engine.reply_of

    def keeping(output, *arguments):
        counts.append(output.num_cached_tokens)
        return plain(output, *arguments)

    monkeypatch.setattr(vllm_engine, "reply_of", keeping)
    return counts


def longs(count: int) -> list[Request]:
    """Prompts that differ from their 36th token on."""
    return [Request("plum " * 35 + "fig " * i, f"long/{i}", Sampling(1)) for i in range(count)]


def test_what_prompts_share_is_computed_once_and_forgotten_with_its_weights(folders, cached):
    policy = policy_of(folders["tied llama"], **VLLM)
    policy.engine.generate(longs(6))
    assert sorted(cached) == [0, 32, 32, 32, 32, 32]
    policy.engine.generate(longs(1))
    assert cached[6:] == [32]
    policy.load_state(policy.state())
    policy.engine.generate(longs(1))
    assert cached[7:] == [0]


def test_prefixes_are_not_cached_where_it_is_switched_off(folders, cached):
    policy = policy_of(folders["tied llama"], **VLLM, vllm={"enable_prefix_caching": False})
    policy.engine.generate(longs(3))
    assert cached == [0, 0, 0]


@pytest.mark.parametrize(
    ("architecture", "adaptation"),
    [("llama", "lora"), ("tied llama", "full"), ("tied llama", "lora"), ("qwen3", "full"), ("tied qwen3", "full")],
)
def test_the_engine_follows_every_update_and_does_not_without_a_hand_over(
    folders, architecture, adaptation, monkeypatch
):
    config = {
        "rollout": {"engine": "vllm", "temperature": 0.8, "max_new_tokens": 64, "performing": {"max_new_tokens": 8}},
        "data": {"max_len": 128},
    }
    policy = policy_of(folders[architecture], **config, actor={"adam": {"lr": 0.02}}, **ADAPTATIONS[adaptation])
    for _ in range(3):
        assert policy.update(policies.played(policy), ADVANTAGES)["sampling/logp_difference_max"] < NEAR
    monkeypatch.setattr(VllmEngine, "take", lambda self, weights: None)
    assert policy.update(policies.played(policy), ADVANTAGES)["sampling/logp_difference_max"] < NEAR
    assert policy.update(policies.played(policy), ADVANTAGES)["sampling/logp_difference_mean"] > 100 * NEAR


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_a_restored_policy_plays_with_the_restored_weights(folders, adaptation):
    config = {**VLLM, "actor": {"adam": {"lr": 0.05}}, **ADAPTATIONS[adaptation]}
    saved = policy_of(folders["tied qwen3"], **config)
    before = said(saved.engine.generate(requests(12)))
    saved.update(policies.played(saved), ADVANTAGES)
    after = said(saved.engine.generate(requests(12)))
    restored = policy_of(folders["tied qwen3"], **config)
    assert said(restored.engine.generate(requests(12))) == before != after
    restored.load_state(saved.state())
    assert said(restored.engine.generate(requests(12))) == after
    assert restored.update(policies.played(restored), ADVANTAGES)["sampling/logp_difference_max"] < NEAR


def test_weights_that_are_missing_are_named(folders):
    engine = policy_of(folders["qwen3"], **VLLM).engine
    with pytest.raises(ValueError, match=r"vLLM has weights that the trainer does not name: \['lm_head.weight', "):
        engine.take([("model.norm.weight", torch.ones(64))])


def test_a_model_that_vllm_cannot_serve_is_refused_in_words(folders):
    with pytest.raises(
        ValueError, match=r"(?s)vLLM can't serve .*max_position_embeddings=128.*--rollout.engine transf"
    ):
        policy_of(folders["llama"], rollout={"engine": "vllm"}, data={"max_len": 4096})


def test_more_prompts_than_are_computed_at_a_time_are_computed_one_after_the_other(folders):
    policy = policy_of(
        folders["llama"],
        data={"max_len": 128},
        rollout={"engine": "vllm", "micro_batch_size": 64, "max_new_tokens": 64, "performing": {"max_new_tokens": 8}},
    )
    rng = random.Random(0)
    asked = [Request(" ".join(rng.choices(tiny_world.WORDS, k=120)), f"{i}", Sampling(2)) for i in range(64)]
    replies = policy.engine.generate(asked)
    assert sum(len(reply.prompt_ids) for reply in replies) > vllm_terms.CPU_BATCH
    for reply in replies:
        expected = logprobs_by_one_pass(policy.model, reply.prompt_ids, reply.ids, 1.0)
        torch.testing.assert_close(torch.tensor(reply.logprobs).double(), expected, atol=NEAR, rtol=0)


def resident() -> float:
    """What this process has of the memory, in GiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 2**30


def test_a_process_has_one_engine_at_a_time_and_the_last_gives_its_memory_back(folders):
    first = policy_of(folders["llama"], **VLLM)
    expected = said(first.engine.generate(requests(6)))
    before = resident()
    for _ in range(3):  # each has a cache of a GiB
        policy = policy_of(folders["llama"], **VLLM)
        assert said(policy.engine.generate(requests(6))) == expected
    assert resident() < before + 0.5
    with pytest.raises(RuntimeError, match="this vLLM engine was closed when another was made"):
        first.engine.generate(requests(1))
    with pytest.raises(RuntimeError, match="a process has one at a time"):
        first.load_state(first.state())
    del policy
    gc.collect()
    assert resident() < before - 0.5
