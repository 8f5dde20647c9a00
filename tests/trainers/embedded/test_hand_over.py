"""Weights under plain names, as an engine with a model of its own takes them, and when it is given them."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
transformers = pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from tests.trainers import tiny_models
from tests.trainers.embedded import policies
from tests.trainers.embedded.policies import ADVANTAGES, policy_of
from tests.trainers.engines import vllm_models
from trainers.embedded import policy as policy_module
from trainers.embedded.engine import SharedEngine, plain_weights

ACTOR = {"adam": {"lr": 0.05}}
ADAPTATIONS = {"full": {}, "lora": {"ds": {"lora": {"rank": 3}}}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """gpt2: tied, with layers that hold their weights transposed; tied llama; llama."""
    place = tmp_path_factory.mktemp("models")
    return {
        "gpt2": str(tiny_models.save("gpt2", place / "gpt2")),
        "llama": str(tiny_models.save("llama", place / "llama")),
        "tied llama": vllm_models.save("tied llama", place / "tied"),
    }


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
@pytest.mark.parametrize("architecture", ["gpt2", "llama", "tied llama"])
def test_what_is_handed_over_is_the_model_that_an_export_writes(folders, architecture, adaptation, tmp_path):
    policy = policy_of(folders[architecture], actor=ACTOR, **ADAPTATIONS[adaptation])
    policy.update(policies.samples(), ADVANTAGES)
    handed = dict(plain_weights(policy.model))
    policy.export(tmp_path / "out")
    exported = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert handed.keys() == dict(exported.named_parameters()).keys()
    for name, weight in exported.named_parameters():
        torch.testing.assert_close(handed[name], weight.detach(), atol=1e-6, rtol=1e-6)
    assert any(
        (handed[name] - weight).abs().max() > 0.01
        for name, weight in transformers.AutoModelForCausalLM.from_pretrained(folders[architecture]).named_parameters()
    )


def test_merging_touches_no_weight_and_keeps_no_gradient(folders):
    policy = policy_of(folders["llama"], actor=ACTOR, **ADAPTATIONS["lora"])
    policy.update(policies.samples(), ADVANTAGES)
    before = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
    assert not any(weight.requires_grad for _, weight in plain_weights(policy.model))
    after = policy.model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


@pytest.mark.parametrize("module", ["embed_tokens", "lm_head"])
def test_adapters_on_tied_embeddings_are_refused_and_on_untied_ones_merged(folders, module):
    lora = {"ds": {"lora": {"rank": 3, "target_modules": f"q_proj,{module}"}}}
    tied, untied = policy_of(folders["tied llama"], **lora), policy_of(folders["llama"], **lora)
    with pytest.raises(ValueError, match=r"--ds.lora.target_modules names tied embeddings"):
        list(plain_weights(tied.model))
    names = [name for name, _ in plain_weights(untied.model)]
    assert sorted(names) == sorted(name for name, _ in tiny_models.model("llama").named_parameters())


class Keeps(SharedEngine):
    """An engine that keeps what it is given."""

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.taken: list[dict[str, torch.Tensor]] = []

    def take(self, weights):
        self.taken.append({name: weight.clone() for name, weight in weights})


@pytest.mark.parametrize("adaptation", ADAPTATIONS)
def test_an_engine_is_given_the_weights_at_the_start_after_each_update_and_after_a_resume(
    folders, adaptation, monkeypatch
):
    monkeypatch.setattr(policy_module, "SharedEngine", Keeps)
    policy = policy_of(folders["llama"], actor=ACTOR, train={"batch_size": 4}, **ADAPTATIONS[adaptation])
    for times in (1, 2, 3):
        assert len(policy.engine.taken) == times
        handed = policy.engine.taken[-1]
        assert handed.keys() == dict(tiny_models.model("llama").named_parameters()).keys()
        assert all(torch.equal(handed[name], weight) for name, weight in plain_weights(policy.model))
        policy.update(policies.samples(), ADVANTAGES)
    trained = policy.engine.taken[-1]
    resumed = policy_of(folders["llama"], actor=ACTOR, **ADAPTATIONS[adaptation])
    resumed.load_state(policy.state())
    start, restored = resumed.engine.taken
    assert all(torch.equal(restored[name], trained[name]) for name in trained)
    assert not all(torch.equal(start[name], trained[name]) for name in trained)
