"""TRL's update and ours compute the same. The tests marked ``trl`` need its real package, in an environment of its own."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest

pytest.importorskip("torch", reason="updates are computed with it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

import torch

from benchmarks.speed.throughput import (
    SCENARIOS,
    WAYS,
    Way,
    forward_and_backward,
    loss_rules,
    main,
    outcomes,
    peak_memory,
    random_model,
    samples_of,
)
from benchmarks.speed.trl_update import batch_of, training_step
from trainers.embedded.loss import LossRules
from trainers.trl import checks
from trainers.trl.checks import check_version

TINY = ["update", "--trl", "--rounds", "1", "--layers", "1", "--vocabulary", "100"]


def uneven_pairs():
    """Samples whose prompts and replies have different lengths, with advantages of both signs."""
    whole = samples_of(replace(SCENARIOS[0], prompt=12, shared=5, reply=6), vocabulary=40)
    cut = [
        replace(sample, prompt_ids=sample.prompt_ids[: 12 - i], ids=sample.ids[: 6 - i], logprobs=sample.logprobs[i:])
        for i, sample in enumerate(whole)
    ]
    return list(zip(cut, (1.0, -0.5, 2.0, -1.0, 0.25), strict=True))


def said_to_be(monkeypatch, found):
    def version(package):
        assert package == "trl"
        if found is None:
            raise PackageNotFoundError(package)
        return found

    monkeypatch.setattr(checks, "version", version)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "trl is not installed"),
        ("1.15.3", "trl is 1.15.3"),
        ("1.160.0", "trl is 1.160.0"),
        ("2.16.0", "trl is 2.16.0"),
    ],
)
def test_a_trl_that_cannot_be_measured_is_refused_with_the_way_out(monkeypatch, capsys, found, said):
    said_to_be(monkeypatch, found)
    with pytest.raises(ValueError, match=rf"{said}.*pip install 'trl==1\.16\.\*'"):
        check_version()
    with pytest.raises(SystemExit, match="2"):
        main(TINY)
    streams = capsys.readouterr()
    assert f"--trl: {said}" in streams.err
    assert streams.out == ""


@pytest.mark.parametrize("found", ["1.16.0", "1.16.2"])
def test_the_tested_trl_is_taken(monkeypatch, found):
    said_to_be(monkeypatch, found)
    check_version()


@pytest.mark.parametrize("rules", [LossRules(), LossRules(kl_coef=0, ratio="sequence")])
def test_rules_that_trl_does_not_have_are_refused(rules):
    with pytest.raises(ValueError, match="mean over tokens"):
        training_step(None, uneven_pairs(), rules, checkpointing=False)


def test_trl_is_given_the_same_tokens_with_prompts_padded_on_the_left_and_replies_on_the_right():
    pairs = uneven_pairs()
    batch = batch_of(pairs)
    assert batch["prompt_ids"].shape == (5, 12)
    assert batch["completion_ids"].shape == (5, 6)
    for row, (sample, advantage) in enumerate(pairs):
        prompt, reply = len(sample.prompt_ids), len(sample.ids)
        assert batch["prompt_ids"][row].tolist() == [0] * (12 - prompt) + list(sample.prompt_ids)
        assert batch["prompt_mask"][row].tolist() == [0] * (12 - prompt) + [1] * prompt
        assert batch["completion_ids"][row].tolist() == list(sample.ids) + [0] * (6 - reply)
        assert batch["completion_mask"][row].tolist() == [1] * reply + [0] * (6 - reply)
        assert batch["old_per_token_logps"][row, :reply].tolist() == pytest.approx(sample.logprobs)
        assert batch["advantages"][row] == advantage
    assert batch["num_items_in_batch"] == 6 + 5 + 4 + 3 + 2


def test_ways_that_differ_are_not_timed():
    pairs = uneven_pairs()
    model = random_model(1, 40, lora=False, checkpointing=False)

    def times(factor):
        return lambda: forward_and_backward(model, [(sample, factor * one) for sample, one in pairs], "plain")

    assert set(outcomes({"plain": Way(model, times(1)), "mask": Way(model, times(1.0001))})) == {"loss", "grad_norm"}
    with pytest.raises(RuntimeError, match=r"differ by more than 0\.001 in loss"):
        outcomes({"plain": Way(model, times(1)), "mask": Way(model, times(1.01))})


def test_some_tokens_of_the_scenarios_are_clipped_and_some_are_not():
    sample = samples_of(replace(SCENARIOS[0], prompt=50, shared=20), vocabulary=100)[0]
    model = random_model(1, 100, lora=False, checkpointing=False)

    def moved(advantage):
        forward_and_backward(model, [(sample, advantage)], "plain")
        return torch.nn.utils.get_total_norm([parameter.grad for parameter in model.parameters()]).item()

    every = moved(1.0) + moved(-1.0)
    assert 0 < moved(1.0) < every
    assert abs(moved(1.0) - moved(-1.0)) > 0.01 * every  # what clips one sign lets the other pass


@pytest.fixture
def real_trl():
    """Skips where TRL isn't, or isn't the tested one."""
    try:
        check_version()
    except ValueError as error:
        pytest.skip(str(error))
    pytest.importorskip("trl", reason="the comparison is with it")


@pytest.mark.trl
@pytest.mark.usefixtures("real_trl")
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_loss_and_gradients_are_trls(way, lora, checkpointing):
    pairs = uneven_pairs()
    ours = random_model(2, 40, lora, checkpointing)
    theirs = random_model(2, 40, lora, checkpointing)
    loss = forward_and_backward(ours, pairs, way)
    assert training_step(theirs, pairs, loss_rules(), checkpointing)() == pytest.approx(loss, rel=1e-5)
    gradients = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if parameter.requires_grad:
            error = (parameter.grad - gradients[name].grad).norm()
            assert error <= 1e-4 * gradients[name].grad.norm() + 1e-7, name


@pytest.mark.trl
@pytest.mark.usefixtures("real_trl")
def test_every_step_of_trl_computes_anew():
    pairs = uneven_pairs()
    model = random_model(1, 40, lora=False, checkpointing=False)
    step = training_step(model, pairs, loss_rules(), checkpointing=False)
    first = step()
    before = model.get_input_embeddings().weight.grad.clone()
    assert step() == pytest.approx(first, rel=1e-6)
    assert torch.allclose(model.get_input_embeddings().weight.grad, before, rtol=1e-4, atol=1e-7)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.5)
    assert step() != pytest.approx(first, rel=1e-2)


@pytest.mark.trl
@pytest.mark.usefixtures("real_trl")
def test_trl_is_timed_beside_ours(capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.speed.throughput.SCENARIOS", [replace(SCENARIOS[0], prompt=50, shared=20, reply=4)])
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    assert main([*TINY, "--scenarios", "1"]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert set(row["seconds"]) == {*WAYS, "trl"}
    assert set(row["ratio_to_trl"]) == set(WAYS)
    assert row["loss"]["trl"] == pytest.approx(row["loss"]["plain"], rel=1e-3)
    assert row["grad_norm"]["trl"] == pytest.approx(row["grad_norm"]["cascade"], rel=1e-3)
    assert row["versions"]["trl"].startswith("1.16.")


@pytest.mark.trl
@pytest.mark.usefixtures("real_trl")
def test_trls_memory_is_measured_in_a_process_of_its_own():
    small = replace(SCENARIOS[2], prompt=200, shared=200)
    assert peak_memory(small, "trl", layers=1, vocabulary=2048, checkpointing=False) > 0
