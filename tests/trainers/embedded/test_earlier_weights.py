"""The learner as it was: it plays with its own weights, one of the pool at a time, and leaves no trace."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import weakref
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from tests.trainers import tiny_runs, tiny_world
from trainers.embedded import opponents
from trainers.embedded.checkpoints import RunFolder
from trainers.embedded.opponents import Batch, EarlierWeights
from trainers.embedded.policy import policy_of
from trainers.engines import Request, Sampling
from trainers.engines.local import load_engine

ADAPTATIONS = {
    "full": {},
    "full, no reference": {"algo": {"kl": {"init_coef": 0.0}}},
    "lora": {"ds": {"lora": {"rank": 2}}},
}


BATCH = Batch(32, 32768, {})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    tiny_world.model_folder(place / "model", steps=60)
    return place


@pytest.fixture(params=ADAPTATIONS)
def trained(request, place):
    """A policy that was trained for three iterations, and its run's checkpoints."""
    groups = {
        **ADAPTATIONS[request.param],
        "train": {"iterations": 3},
        "eval": {"games": 0},
        "actor": {"adam": {"lr": 0.02}},
    }
    name = f"trained {request.param}"
    if not (place / name).exists():
        tiny_runs.run(tiny_runs.config_of(place, place / "model", name, **groups))
    config = tiny_runs.config_of(place, place / "model", name, **groups, ckpt={"load_enable": True})
    policy = policy_of(config, str(place / "model"))
    folder = RunFolder(config.ckpt)
    folder.resume(config.without_secrets(), policy)
    return policy, folder


def asked(count=12):
    prompts = tiny_world.played_prompts(3, seed=5)
    return [Request(prompts[i % len(prompts)], f"seed/{i}", Sampling(4)) for i in range(count)]


def texts_and_odds(replies):
    return [reply.text for reply in replies], [logprob for reply in replies for logprob in reply.logprobs]


@pytest.mark.parametrize("step", [0, 1, 2])
def test_an_earlier_self_plays_as_it_was(trained, place, step):
    policy, folder = trained
    source = place / "model" if step == 0 else folder.checkpoint_of(step)
    expected_texts, expected = texts_and_odds(load_engine(str(source)).generate(asked()))
    texts, odds = texts_and_odds(EarlierWeights(policy, folder.checkpoint_of, BATCH).engine(step).generate(asked()))
    assert texts == expected_texts
    assert odds == pytest.approx(expected, abs=1e-4)
    assert odds != pytest.approx(texts_and_odds(policy.engine.generate(asked()))[1], abs=1e-3)


def test_the_learners_weights_optimizer_and_replies_are_the_same_after_others_have_played(trained):
    policy, folder = trained
    before = policy.engine.generate(asked())
    state = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
    grads = [parameter.requires_grad for parameter in policy.model.parameters()]
    earlier = EarlierWeights(policy, folder.checkpoint_of, BATCH)
    for step in (0, 2, 1, 2):
        earlier.engine(step).generate(asked(2))
    assert all(torch.equal(weight, state[name]) for name, weight in policy.model.state_dict().items())
    assert [parameter.requires_grad for parameter in policy.model.parameters()] == grads
    assert policy.engine.generate(asked()) == before


def test_the_learners_weights_come_back_when_an_earlier_self_breaks_down(trained):
    policy, folder = trained
    state = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
    with pytest.raises(AttributeError):
        EarlierWeights(policy, folder.checkpoint_of, BATCH).engine(1).generate([None])
    assert all(torch.equal(weight, state[name]) for name, weight in policy.model.state_dict().items())


def test_one_of_the_pool_is_in_memory_at_a_time_and_the_initial_model_is_the_reference_where_there_is_one(
    trained, monkeypatch
):
    policy, folder = trained
    loaded = []
    whole = opponents.AutoModelForCausalLM.from_pretrained

    def pooled():
        return [place.name for place, model in loaded if model() is not None and place.name != "model"]

    def count(place, **options):
        assert pooled() == [], "another of the pool is still in memory"
        model = whole(place, **options)
        loaded.append((place, weakref.ref(model)))
        return model

    monkeypatch.setattr(opponents.AutoModelForCausalLM, "from_pretrained", count)
    earlier = EarlierWeights(policy, folder.checkpoint_of, BATCH)
    for step in (0, 1, 1, 0, 2, 3):
        earlier.engine(step).generate(asked(2))
        assert len(pooled()) <= 1
    names = [place.name for place, _ in loaded]
    if policy.lora:
        assert names == []
    elif policy.reference is not None:
        assert names == ["step_1", "step_2", "step_3"]
    else:
        assert names == ["model", "step_1", "step_2", "step_3"]


def test_a_member_of_the_pool_that_is_gone_is_named(trained):
    policy, _ = trained
    nowhere = EarlierWeights(policy, lambda step: Path("nowhere") / f"step_{step}", BATCH)
    with pytest.raises(ValueError, match=r"step_7 is gone, and --opponents.\* past plays with it"):
        nowhere.engine(7).generate(asked(1))


def test_prompts_are_counted_as_the_learner_counts(trained):
    policy, folder = trained
    earlier = EarlierWeights(policy, folder.checkpoint_of, BATCH).engine(0)
    for prompt in tiny_world.played_prompts(2):
        assert earlier.count_tokens(prompt, "x") == policy.engine.count_tokens(prompt, "x")
