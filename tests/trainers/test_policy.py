"""The policy's log-probabilities and their gradients, against one plain forward pass a sample."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
transformers = pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

import policies
import tiny_models
from policies import policy_of

from trainers.embedded.policy import Policy, micro_batches

ADAPTATIONS = {"full": {}, "lora": {"ds": {"lora": {"rank": 3}}}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    return {kind: str(tiny_models.save(kind, place / kind)) for kind in tiny_models.ARCHITECTURES}


def shaken(policy: Policy) -> Policy:
    """Away from the start, where an adapter changes nothing and half of its gradient is zero."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.trained:
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return policy


def padded(policy: Policy, samples):
    """Prompts, reply ids and mask as the policy's own functions want them."""
    longest = max(len(sample.ids) for sample in samples)
    ids_BT = torch.tensor([[*s.ids, *[policy.engine.pad] * (longest - len(s.ids))] for s in samples])
    mask_BT = torch.tensor([[1] * len(s.ids) + [0] * (longest - len(s.ids)) for s in samples])
    return [sample.prompt_ids for sample in samples], ids_BT, mask_BT


def one_by_one(model, samples, temperature: float = 1.0):
    """The plain way: each sample alone, nothing padded, nothing shared."""
    found = []
    for sample in samples:
        logits_TV = model(torch.tensor([[*sample.prompt_ids, *sample.ids]])).logits[0, len(sample.prompt_ids) - 1 : -1]
        logprobs_TV = torch.log_softmax(logits_TV / temperature, dim=-1)
        found.append(logprobs_TV[range(len(sample.ids)), list(sample.ids)])
    return found


def gradient(policy: Policy, logprobs) -> torch.Tensor:
    """Of a sum in which every sample and token weighs differently."""
    policy.optimizer.zero_grad()
    total = sum(
        (own * torch.linspace(1, 2, len(own))).sum() * (-1) ** i * (1 + i / 10) for i, own in enumerate(logprobs)
    )
    total.backward()
    return torch.cat([p.grad.flatten() for p in policy.trained if p.grad is not None])


def off(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The relative error."""
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
@pytest.mark.parametrize("architecture", tiny_models.ARCHITECTURES)
def test_shared_prompts_and_whole_sequences_equal_the_plain_way(folders, architecture, adaptation):
    policy = shaken(policy_of(folders[architecture], **ADAPTATIONS[adaptation]))
    samples = policies.samples()
    assert len({len(sample.prompt_ids) for sample in samples}) > 2
    assert len({sample.prompt_ids for sample in samples}) < len(samples)
    plain = one_by_one(policy.model, samples)
    expected = gradient(policy, plain)
    for logits_of in (policy._logits_by_prompt, policy._logits_at_once):
        prompts, ids_BT, mask_BT = padded(policy, samples)
        logits_BTV = logits_of(policy.model, prompts, ids_BT, mask_BT)
        logprobs_BT = torch.log_softmax(logits_BTV, dim=-1).gather(2, ids_BT[:, :, None])[:, :, 0]
        found = [own[: len(sample.ids)] for own, sample in zip(logprobs_BT, samples, strict=True)]
        assert off(torch.cat(found), torch.cat(plain)) < 1e-5
        assert off(gradient(policy, found), expected) < 1e-4


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_log_probabilities_are_at_the_temperature_of_sampling(folders, adaptation, checkpointing):
    config = {"rollout": {"temperature": 0.6}, "actor": {"gradient_checkpointing_enable": checkpointing}}
    policy = shaken(policy_of(folders["qwen3"], **config, **ADAPTATIONS[adaptation]))
    samples = policies.samples()
    policy._prepare()
    logprobs_BT, entropy_BT = policy._logprobs(policy.model, samples)
    found = [own[: len(sample.ids)] for own, sample in zip(logprobs_BT, samples, strict=True)]
    expected = one_by_one(policy.model.eval(), samples, temperature=0.6)
    assert off(torch.cat(found), torch.cat(expected)) < 1e-5
    assert off(gradient(policy, found), gradient(policy, expected)) < 1e-4
    assert not entropy_BT.requires_grad


def test_replies_of_one_token_need_no_cache(folders):
    policy = policy_of(folders["llama"])
    samples = [policies.sample(i, "plum fig" if i else "date", ids=(5 + i,)) for i in range(3)]
    found = policy._logprobs(policy.model, samples)[0][:, 0]
    assert off(found, torch.cat(one_by_one(policy.model, samples))) < 1e-5


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_gradient_checkpointing_computes_layers_twice_and_changes_nothing(folders, adaptation):
    computed, grads = {}, {}
    for on in (False, True):
        actor = {"gradient_checkpointing_enable": on, "max_norm": 1e9}
        config = {"actor": actor, "train": {"micro_batch_size": 100}, "algo": {"kl": {"init_coef": 0.0}}}
        policy = shaken(policy_of(folders["llama"], **config, **ADAPTATIONS[adaptation]))
        calls = computed[on] = []
        layer = next(module for module in policy.model.modules() if type(module).__name__ == "LlamaDecoderLayer")
        layer.mlp.register_forward_pre_hook(lambda _, args, calls=calls: calls.append(args[0].shape[1]))
        policy.update(policies.samples(), policies.ADVANTAGES)
        grads[on] = torch.cat([p.grad.flatten() for p in policy.trained])
    assert off(grads[True], grads[False]) < 1e-4
    prompts, replies = computed[False]
    assert computed[True] == [prompts + replies + 1] * 2, "at once, and again on the way back"


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
@pytest.mark.parametrize("architecture", tiny_models.ARCHITECTURES)
def test_what_was_sampled_is_what_is_trained(folders, architecture, adaptation):
    """GPT-2's dropout rests, in all three: player, learner, reference."""
    policy = policy_of(folders[architecture], rollout={"temperature": 0.8}, **ADAPTATIONS[adaptation])
    metrics = policy.update(policies.played(policy), policies.ADVANTAGES)
    assert metrics["sampling/logp_difference_max"] < 1e-4
    assert abs(metrics["kl"]) < 1e-8
    assert metrics["clip_ratio"] == 0


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_the_reference_is_the_model_before_training(folders, adaptation, checkpointing):
    config = {"actor": {"adam": {"lr": 0.01}, "gradient_checkpointing_enable": checkpointing}}
    policy = policy_of(folders["gpt2"], **config, **ADAPTATIONS[adaptation])
    samples = policies.samples()
    before = torch.cat(one_by_one(policy.model.eval(), samples)).detach()
    divergences = [policy.update(samples, policies.ADVANTAGES)["kl"] for _ in range(3)]
    assert abs(divergences[0]) < 1e-8
    assert divergences[1] > 1e-4
    assert divergences[2] > 1e-4
    reference_BT = policy._reference_logprobs(samples)
    reference = torch.cat([own[: len(sample.ids)] for own, sample in zip(reference_BT, samples, strict=True)])
    assert off(reference, before) < 1e-5
    assert off(torch.cat(one_by_one(policy.model.eval(), samples)), before) > 1e-3


def test_without_a_kl_term_there_is_no_reference(folders):
    policy = policy_of(folders["llama"], algo={"kl": {"init_coef": 0.0}}, actor={"adam": {"lr": 0.01}})
    assert policy.reference is None
    assert [policy.update(policies.samples(), policies.ADVANTAGES)["kl"] for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_micro_batches_lose_no_sample_and_part_only_those_that_share_a_prompt_and_do_not_fit(size):
    rng = Random(size)
    for _ in range(50):
        prompts = [tuple(range(rng.randint(1, 9))) for _ in range(rng.randint(1, 6))]
        pairs = [(policies.sample(i, prompt_ids=rng.choice(prompts)), rng.random()) for i in range(rng.randint(1, 30))]
        batches = micro_batches(pairs, size)
        assert sorted(pair[0].game for batch in batches for pair in batch) == sorted(pair[0].game for pair in pairs)
        assert all(pair in pairs for batch in batches for pair in batch)
        assert all(0 < len(batch) <= size for batch in batches)
        assert all(len(one) + len(next_one) > size for one, next_one in pairwise(batches))  # none is started too early
        held = [{sample.prompt_ids for sample, _ in batch} for batch in batches]
        for prompt, count in Counter(sample.prompt_ids for sample, _ in pairs).items():
            assert sum(prompt in prompts for prompts in held) == -(-count // size)
