"""The policy's optimizer steps, its state, and the folder that it writes."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import dataclasses
from random import Random

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
transformers = pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from tests.trainers import tiny_models
from tests.trainers.embedded import policies
from tests.trainers.embedded.policies import ADVANTAGES, policy_of
from trainers.embedded.policy import NotFiniteError, Policy
from trainers.engines.encoder import Encoder

ADAPTATIONS = {"full": {}, "lora": {"ds": {"lora": {"rank": 3}}}}
# A large eps: Adam would make whole steps of the rounding errors where a gradient is zero.
ACTOR = {"adam": {"lr": 0.01, "eps": 1e-3}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tiny_models.save("llama", tmp_path_factory.mktemp("model")))


@pytest.fixture(params=ADAPTATIONS)
def adaptation(request):
    return ADAPTATIONS[request.param]


def weights(policy: Policy) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in policy.trained])


def logits_of(model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(torch.tensor([[3, 17, 18, 19, 4]])).logits


def updated(policy: Policy, times: int = 1) -> Policy:
    for _ in range(times):
        policy.update(policies.samples(), ADVANTAGES)
    return policy


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean"])
def test_an_update_does_not_depend_on_how_many_samples_are_computed_at_a_time(folder, adaptation, aggregation):
    actor = {**ACTOR, "loss_agg_mode": aggregation}
    found, told = [], []
    for size in (1, 3, 100):
        policy = policy_of(folder, train={"micro_batch_size": size}, actor=actor, **adaptation)
        before = weights(policy).clone()
        told.append(policy.update(policies.samples(), ADVANTAGES))
        found.append(weights(policy))
    assert (found[0] - before).abs().max() > 1e-3
    for other, metrics in zip(found[1:], told[1:], strict=True):
        torch.testing.assert_close(other, found[0], atol=1e-6, rtol=0)
        assert metrics == pytest.approx(told[0], rel=1e-4, abs=1e-6)


def test_an_update_does_not_depend_on_the_order_of_its_samples(folder):
    pairs = list(zip(policies.samples(), ADVANTAGES, strict=True))
    Random(0).shuffle(pairs)
    shuffled = policy_of(folder, actor=ACTOR)
    shuffled.update(*zip(*pairs, strict=True))
    torch.testing.assert_close(weights(shuffled), weights(updated(policy_of(folder, actor=ACTOR))), atol=1e-6, rtol=0)


def test_a_smaller_batch_size_makes_several_optimizer_steps_that_miss_no_sample(folder, adaptation):
    in_steps = updated(policy_of(folder, train={"batch_size": 3}, actor=ACTOR, **adaptation))
    by_hand = policy_of(folder, actor=ACTOR, **adaptation)
    for part in (slice(0, 3), slice(3, 6), slice(6, 8)):
        by_hand.update(policies.samples()[part], ADVANTAGES[part])
    assert torch.equal(weights(in_steps), weights(by_hand))
    assert {int(state["step"]) for state in in_steps.optimizer.state.values()} == {3}


def test_every_epoch_passes_over_all_samples_again(folder, adaptation):
    in_epochs = updated(policy_of(folder, train={"max_epochs": 2}, actor=ACTOR, **adaptation))
    by_hand = updated(policy_of(folder, actor=ACTOR, **adaptation), times=2)
    assert torch.equal(weights(in_epochs), weights(by_hand))


def test_norms_are_of_the_gradient_and_of_the_step(folder):
    policy = policy_of(folder, actor={**ACTOR, "max_norm": 1e-9})
    before = weights(policy).clone()
    metrics = policy.update(policies.samples(), ADVANTAGES)
    clipped = torch.cat([parameter.grad.flatten() for parameter in policy.trained]).norm().item()
    assert clipped == pytest.approx(1e-9, rel=1e-3)
    assert metrics["grad_norm"] > 0.1
    assert metrics["update_norm"] == pytest.approx((weights(policy) - before).norm().item(), rel=1e-3)


def test_no_advantage_moves_nothing(folder):
    policy = policy_of(folder, actor=ACTOR)
    before = weights(policy).clone()
    metrics = policy.update(policies.samples(), [0.0] * len(ADVANTAGES))
    assert metrics["update_norm"] < 1e-4, "the KL term is flat where policy and reference are one"
    torch.testing.assert_close(weights(policy), before, atol=1e-4, rtol=0)


def a_nan(samples):
    broken = dataclasses.replace(samples[5], logprobs=(float("nan"),) * len(samples[5].ids))
    return [*samples[:5], broken, *samples[6:]], ADVANTAGES, "loss is nan.*game-5"


def an_overflow(samples):
    return samples, [1e30] * len(ADVANTAGES), "gradient's norm is inf.*game-0.*game-7"


@pytest.mark.parametrize("trouble", [a_nan, an_overflow])
def test_what_is_not_finite_is_named_by_game_and_touches_nothing(folder, adaptation, trouble):
    policy = updated(policy_of(folder, train={"micro_batch_size": 2}, actor=ACTOR, **adaptation))
    before = weights(policy).clone()
    samples, advantages, message = trouble(policies.samples())
    with pytest.raises(NotFiniteError, match=message):
        policy.update(samples, advantages)
    assert torch.equal(weights(policy), before)
    twice = updated(policy_of(folder, train={"micro_batch_size": 2}, actor=ACTOR, **adaptation), times=2)
    assert torch.equal(weights(updated(policy)), weights(twice)), "nothing of the failed update is left behind"


def test_a_restored_policy_goes_on_as_the_one_that_was_saved(folder, adaptation, tmp_path):
    saved = updated(policy_of(folder, actor=ACTOR, **adaptation))
    torch.save(saved.state(), tmp_path / "state.pt")
    restored = policy_of(folder, actor=ACTOR, **adaptation)
    restored.load_state(torch.load(tmp_path / "state.pt", weights_only=True))
    samples = policies.samples()
    assert restored.update(samples, ADVANTAGES) == saved.update(samples, ADVANTAGES)
    assert torch.equal(weights(restored), weights(saved))


def test_an_exported_folder_is_the_live_model_for_plain_transformers(folder, adaptation, tmp_path):
    policy = updated(policy_of(folder, actor=ACTOR, **adaptation), times=3)
    policy.export(tmp_path / "out")
    assert not list((tmp_path / "out").glob("*adapter*"))
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert type(model).__name__ == "LlamaForCausalLM"
    torch.testing.assert_close(logits_of(model), logits_of(policy.model), atol=1e-4, rtol=1e-4)
    assert (logits_of(model) - logits_of(tiny_models.model("llama"))).abs().max() > 0.1


def test_an_exported_folder_has_the_tokenizer_and_chat_template_it_came_with(folder, adaptation, tmp_path):
    policy_of(folder, **adaptation).export(tmp_path / "out")
    before, after = (transformers.AutoTokenizer.from_pretrained(place) for place in (folder, tmp_path / "out"))
    assert after.chat_template == before.chat_template
    assert after.get_vocab() == before.get_vocab()
    assert Encoder(after).encode("plum <end> fig", "kiwi") == Encoder(before).encode("plum <end> fig", "kiwi")


def test_an_export_leaves_the_live_model_alone(folder, adaptation, tmp_path):
    with_export = updated(policy_of(folder, actor=ACTOR, **adaptation))
    trains = [parameter.requires_grad for parameter in with_export.model.parameters()]
    before, generator = logits_of(with_export.model), torch.random.get_rng_state()
    with_export.export(tmp_path / "out")
    assert torch.equal(logits_of(with_export.model), before)
    assert [parameter.requires_grad for parameter in with_export.model.parameters()] == trains
    assert torch.equal(torch.random.get_rng_state(), generator)
    without = updated(policy_of(folder, actor=ACTOR, **adaptation), times=2)
    assert torch.equal(weights(updated(with_export)), weights(without))


def test_adapters_begin_from_the_seed_and_the_global_generator_is_not_moved(folder):
    before = torch.random.get_rng_state()
    first, again, other = (
        weights(policy_of(folder, train={"seed": seed}, **ADAPTATIONS["lora"])) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("modules", "count"), [("q_proj,v_proj", 4), ("all-linear", 14)])
def test_adapters_sit_where_they_are_wanted_and_nothing_else_trains(folder, modules, count):
    policy = policy_of(folder, ds={"lora": {"rank": 3, "target_modules": modules}})
    assert len(policy.trained) == 2 * count
    assert {min(parameter.shape) for parameter in policy.trained} == {3}


def test_weights_that_train_are_kept_in_full_precision(folder, adaptation):
    ds = {**adaptation.get("ds", {}), "param_dtype": "bf16"}
    policy = policy_of(folder, ds=ds, actor=ACTOR)
    assert {parameter.dtype for parameter in policy.trained} == {torch.float32}
    assert 0 < policy.update(policies.played(policy), ADVANTAGES)["update_norm"] < 10


def test_a_folder_without_a_model_is_refused_in_words(tmp_path):
    with pytest.raises(ValueError, match=r"no model at .*give a transformers folder"):
        policy_of(str(tmp_path / "nowhere"))
