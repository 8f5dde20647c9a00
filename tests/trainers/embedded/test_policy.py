"""The policy's log-probabilities and their gradients, against one plain forward pass a sample."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
transformers = pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from tests.trainers import tiny_models
from tests.trainers.embedded import policies
from tests.trainers.embedded.policies import policy_of
from trainers.embedded.logprobs import fed, tree_of
from trainers.embedded.policy import Policy
from trainers.engines.tree_attention import attending

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


def own_rows(rows_BT, samples):
    """Each sample's row without its padding."""
    return [row[: len(sample.ids)] for row, sample in zip(rows_BT, samples, strict=True)]


@pytest.mark.parametrize("sharing", ["cascade", "mask", "off"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("adaptation", ADAPTATIONS)
@pytest.mark.parametrize("architecture", tiny_models.ARCHITECTURES)
def test_log_probabilities_and_gradients_equal_the_plain_way(folders, architecture, adaptation, checkpointing, sharing):
    actor = {"shared_prompts": sharing, "gradient_checkpointing_enable": checkpointing}
    policy = shaken(policy_of(folders[architecture], actor=actor, **ADAPTATIONS[adaptation]))
    samples = policies.samples()
    assert len({len(sample.prompt_ids) for sample in samples}) > 2
    assert len({sample.prompt_ids for sample in samples}) < len(samples)
    assert max(len(fed(sample)) for sample in samples) > 2 * tiny_models.WINDOW
    plain = one_by_one(policy.model, samples)
    expected = gradient(policy, plain)
    policy._prepare()
    method = policy.method_for(samples)
    with attending(policy.model, method):
        found = own_rows(policy._logprobs(policy.model, samples, method)[0], samples)
        assert off(torch.cat(found), torch.cat(plain)) < 1e-5
        assert off(gradient(policy, found), expected) < 1e-4


@pytest.mark.parametrize("sharing", ["cascade", "mask", "off"])
@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_log_probabilities_are_at_the_temperature_of_sampling(folders, adaptation, sharing):
    config = {"rollout": {"temperature": 0.6}, "actor": {"shared_prompts": sharing}}
    policy = shaken(policy_of(folders["qwen3"], **config, **ADAPTATIONS[adaptation]))
    samples = policies.samples()
    with attending(policy.model, policy.sharing):
        logprobs_BT, entropy_BT = policy._logprobs(policy.model, samples, policy.sharing)
        found = own_rows(logprobs_BT, samples)
        slopes = gradient(policy, found)
    expected = one_by_one(policy.model.eval(), samples, temperature=0.6)
    assert off(torch.cat(found), torch.cat(expected)) < 1e-5
    assert off(slopes, gradient(policy, expected)) < 1e-4
    assert not entropy_BT.requires_grad


@pytest.mark.parametrize("sharing", ["cascade", "mask", "off"])
def test_the_entropy_is_that_of_the_distribution_sampled_from(folders, sharing):
    policy = policy_of(folders["llama"], rollout={"temperature": 0.6}, actor={"shared_prompts": sharing})
    samples = policies.samples()
    with attending(policy.model, policy.sharing):
        found = own_rows(policy._logprobs(policy.model, samples, policy.sharing)[1], samples)
    for sample, own in zip(samples, found, strict=True):
        logits_TV = policy.model(torch.tensor([[*sample.prompt_ids, *sample.ids]])).logits[0]
        places = torch.distributions.Categorical(logits=logits_TV[len(sample.prompt_ids) - 1 : -1] / 0.6)
        assert off(own, places.entropy()) < 1e-4


@pytest.mark.parametrize("sharing", ["cascade", "mask", "off"])
def test_replies_of_one_token_are_read_at_the_prompts_end(folders, sharing):
    policy = policy_of(folders["llama"], actor={"shared_prompts": sharing})
    samples = [policies.sample(i, "plum fig" if i else "date", ids=(5 + i,)) for i in range(3)]
    with attending(policy.model, policy.sharing):
        found = policy._logprobs(policy.model, samples, policy.sharing)[0][:, 0]
    assert off(found, torch.cat(one_by_one(policy.model, samples))) < 1e-5


@pytest.mark.parametrize("sharing", ["cascade", "mask", "off"])
@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_the_head_computes_what_is_read_and_no_more(folders, adaptation, sharing):
    policy = policy_of(folders["llama"], actor={"shared_prompts": sharing}, **ADAPTATIONS[adaptation])
    samples = policies.samples()
    read = {(sample.prompt_ids, sample.ids[:place]) for sample in samples for place in range(len(sample.ids))}
    tokens = sum(len(sample.ids) for sample in samples)
    head, seen = policy.model.get_output_embeddings(), []
    head.register_forward_hook(lambda _, given, made: seen.append(made.shape[:2]))
    with attending(policy.model, policy.sharing):
        policy._logprobs(policy.model, samples, policy.sharing)
    assert seen == [(1, tokens if sharing == "off" else len(read))]
    assert len(read) < tokens


@pytest.mark.parametrize("actor", [{}, {"shared_prompts": "off"}, {"shared_prompts": "mask"}])
def test_the_engine_shares_as_the_policy_does(folders, actor):
    policy = policy_of(folders["llama"], actor=actor)
    assert policy.engine._sharing == policy.sharing


@pytest.mark.parametrize("architecture", tiny_models.UNSERVED)
def test_an_architecture_that_trees_do_not_suit_takes_the_plain_way_and_says_why(tmp_path, architecture):
    folder = str(tiny_models.save(architecture, tmp_path))
    with pytest.warns(UserWarning, match="prompts are not shared"):
        policy = policy_of(folder)
    assert policy.sharing is None
    assert architecture in policy.sharing_refused.lower()
    assert policy.engine._sharing is None
    samples = policies.samples()
    found = own_rows(policy._logprobs(policy.model, samples, None)[0], samples)
    assert off(torch.cat(found), torch.cat(one_by_one(policy.model, samples))) < 1e-5
    assert policy.update(policies.played(policy), policies.ADVANTAGES)["sampling/logp_difference_max"] < 1e-4
    with pytest.raises(ValueError, match="choose auto or off"):
        policy_of(folder, actor={"shared_prompts": "mask"})


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_gradient_checkpointing_computes_layers_twice_and_changes_nothing(folders, adaptation):
    computed, grads = {}, {}
    for on in (False, True):
        actor = {"gradient_checkpointing_enable": on, "max_norm": 1e9}
        policy = shaken(
            policy_of(folders["llama"], actor=actor, algo={"kl": {"init_coef": 0.0}}, **ADAPTATIONS[adaptation])
        )
        calls = computed[on] = []
        layer = next(module for module in policy.model.modules() if type(module).__name__ == "LlamaDecoderLayer")
        layer.mlp.register_forward_pre_hook(lambda _, args, calls=calls: calls.append(args[0].shape[1]))
        policy.update(policies.samples(), policies.ADVANTAGES)
        grads[on] = torch.cat([p.grad.flatten() for p in policy.trained])
    assert off(grads[True], grads[False]) < 1e-4
    tokens = len(tree_of(policies.samples()).ids)
    assert computed == {False: [tokens], True: [tokens] * 2}, "at once, and again on the way back"


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
    reference_BT = policy._reference_logprobs(samples, policy.sharing)
    reference = torch.cat([own[: len(sample.ids)] for own, sample in zip(reference_BT, samples, strict=True)])
    assert off(reference, before) < 1e-5
    assert off(torch.cat(one_by_one(policy.model.eval(), samples)), before) > 1e-3


def test_without_a_kl_term_there_is_no_reference(folders):
    policy = policy_of(folders["llama"], algo={"kl": {"init_coef": 0.0}}, actor={"adam": {"lr": 0.01}})
    assert policy.reference is None
    assert [policy.update(policies.samples(), policies.ADVANTAGES)["kl"] for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("sharing", ["cascade", "mask", "off"])
@pytest.mark.parametrize("adaptation", ADAPTATIONS)
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_in_bf16_every_way_stays_near_the_sampler(folders, architecture, adaptation, sharing):
    config = {"ds": {"param_dtype": "bf16", **ADAPTATIONS[adaptation].get("ds", {})}}
    policy = policy_of(folders[architecture], actor={"shared_prompts": sharing}, **config)
    assert policy.sharing == (None if sharing == "off" else sharing)
    metrics = policy.update(policies.played(policy), policies.ADVANTAGES)
    assert 0 < metrics["sampling/logp_difference_mean"] < 0.1
    assert metrics["grad_norm"] > 0
