"""OpenRLHF's update has the loss and the gradient of the embedded trainer's, given the same numbers.

Run with ``-m openrlhf`` in an environment of its own; ``tests/environments/openrlhf.txt`` says which.
"""
# ruff: noqa: E402 - the imports below need what importorskip asks for, and the bridge

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="tensors are its")
pytest.importorskip("openrlhf", reason="its loss is compared")

from tests.trainers.openrlhf import openrlhf_without_gpu

openrlhf_without_gpu.install()

from tests.trainers.openrlhf.openrlhf_parser import Read, told
from tests.trainers.openrlhf.openrlhf_updates import KnownLogprobs, experience_of, trainer_of
from trainers.embedded.loss import LossRules, Whole, aggregate, k3, loss_of, policy_objective

pytestmark = pytest.mark.openrlhf

KL_COEF = 0.3  # far from 0.001, so that the KL's part is seen
NEAR = 1e-5  # relative; OpenRLHF computes in float32
LENGTHS = {
    "ragged": [7, 1, 12, 3, 5, 2, 9, 4],
    "all of one length": [6] * 8,
    "one token each": [1] * 8,
    "one long reply": [40, 1, 1, 1, 1, 1, 1, 1],
}
SPREAD = 0.4  # of log ratios: most tokens lie beyond the clip range on one side or the other
SEEDS = range(3)


def batch(lengths, seed):
    """Log-probabilities of the policy as it is, as it sampled, and of the reference; advantages; the mask."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    mask_BT = (torch.arange(shape[1]) < torch.tensor(lengths)[:, None]).float()
    old_BT = -3 * torch.rand(shape, generator=generator, dtype=torch.float64) * mask_BT
    moved_BT, away_BT = (SPREAD * torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    advantages_B = torch.randn(shape[0], generator=generator, dtype=torch.float64)
    return (old_BT + moved_BT) * mask_BT, old_BT, (old_BT + away_BT) * mask_BT, advantages_B, mask_BT


def ours(current_BT, old_BT, reference_BT, advantages_B, mask_BT, rules):
    """The embedded trainer's loss and gradient, as one micro-batch in float64."""
    logprobs_BT = current_BT.clone().requires_grad_()
    whole = Whole(int(mask_BT.sum()), len(mask_BT))
    loss = loss_of(logprobs_BT, old_BT, reference_BT, advantages_B, mask_BT.double(), rules, whole)
    loss.value.backward()
    return loss, logprobs_BT.grad


def theirs(current_BT, old_BT, reference_BT, advantages_B, mask_BT, micro_batch, *flags, sampled_BT=None):
    """OpenRLHF's loss and gradient, added up over its micro-batches; and what it logs."""
    policy = KnownLogprobs(current_BT.float())
    trainer = trainer_of(policy, Read(told(*flags)).args, len(mask_BT), micro_batch)
    trainer.replay_buffer.append(
        experience_of(
            len(mask_BT),
            action_mask=mask_BT.bool(),
            action_log_probs=old_BT.float(),
            rollout_log_probs=(old_BT if sampled_BT is None else sampled_BT).float(),
            base_action_log_probs=reference_BT.float(),
            advantages=advantages_B.float()[:, None] * mask_BT,
        )
    )
    logged = trainer.ppo_train(KL_COEF)
    return trainer.strategy.loss, policy.logprobs_NA.grad.double(), logged


def assert_near(actual_BT, expected_BT):
    torch.testing.assert_close(actual_BT, expected_BT, rtol=NEAR, atol=NEAR * expected_BT.abs().max().item())


def test_the_batches_hold_tokens_clipped_on_both_sides_and_tokens_that_are_not():
    for lengths in LENGTHS.values():
        ratios, clipped = [], []
        for seed in SEEDS:
            current_BT, old_BT, _, advantages_B, mask_BT = batch(lengths, seed)
            _, clipped_BT = policy_objective(current_BT, old_BT, advantages_B, mask_BT.double(), LossRules())
            real_BT = mask_BT.bool()
            ratios += (current_BT - old_BT).exp()[real_BT].tolist()
            clipped += clipped_BT[real_BT].tolist()
        kinds = {(taken_hold, ratio > 1) for taken_hold, ratio in zip(clipped, ratios, strict=True)}
        assert kinds == {(True, True), (True, False), (False, True), (False, False)}


@pytest.mark.parametrize("micro_batch", [8, 4, 2, 1])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_loss_and_gradient_are_the_embedded_trainers(lengths, micro_batch):
    for seed in SEEDS:
        made = batch(lengths, seed)
        loss, gradient_BT = ours(*made, LossRules(0.2, KL_COEF))
        of_theirs, gradient_of_theirs_BT, _ = theirs(*made, micro_batch)
        assert of_theirs == pytest.approx(loss.value.item(), rel=NEAR, abs=1e-6)
        assert_near(gradient_of_theirs_BT, gradient_BT)


@pytest.mark.parametrize("micro_batch", [8, 2, 1])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_under_the_mean_over_samples_only_the_kl_differs_which_openrlhf_always_means_over_tokens(lengths, micro_batch):
    for seed in SEEDS:
        made = batch(lengths, seed)
        loss, gradient_BT = ours(*made, LossRules(0.2, 0.0, "seq-mean-token-mean"))
        kl, gradient_of_kl_BT = kl_over_tokens(*made)
        of_theirs, gradient_of_theirs_BT, _ = theirs(*made, micro_batch, "--actor.loss_agg_mode", "seq-mean-token-mean")
        assert of_theirs == pytest.approx(loss.value.item() + KL_COEF * kl, rel=NEAR, abs=1e-6)
        assert_near(gradient_of_theirs_BT, gradient_BT + KL_COEF * gradient_of_kl_BT)


def kl_over_tokens(current_BT, old_BT, reference_BT, advantages_B, mask_BT):
    """The embedded trainer's k3 and its gradient, as a mean over tokens."""
    logprobs_BT = current_BT.clone().requires_grad_()
    whole = Whole(int(mask_BT.sum()), len(mask_BT))
    kl = aggregate(k3(logprobs_BT, reference_BT), mask_BT.double(), "token-mean", whole)
    kl.backward()
    return kl.item(), logprobs_BT.grad


def test_the_sampler_correction_changes_nothing_where_sampler_and_trainer_agree():
    made = batch(LENGTHS["ragged"], 0)
    without, gradient_BT, logged = theirs(*made, 2, "--algo.advantage.is_correction_level", "off")
    corrected, gradient_of_corrected_BT, said = theirs(*made, 2)
    assert corrected == pytest.approx(without, rel=NEAR)
    assert_near(gradient_of_corrected_BT, gradient_BT)
    assert "vllm_kl" not in logged
    assert said["vllm_kl"] == said["is_filter_ratio"] == 0


def test_the_sampler_correction_weighs_a_sample_by_how_much_likelier_the_trainer_finds_it():
    """Where the sampler is off by a factor of 1.25 on all tokens, the policy's part grows by it and the KL's doesn't."""
    made = batch(LENGTHS["ragged"], 0)
    _, old_BT, _, _, mask_BT = made
    loss, gradient_BT = ours(*made, LossRules(0.2, 0.0))
    kl, gradient_of_kl_BT = kl_over_tokens(*made)
    sampled_BT = (old_BT - math.log(1.25)) * mask_BT
    of_theirs, gradient_of_theirs_BT, logged = theirs(*made, 2, sampled_BT=sampled_BT)
    assert of_theirs == pytest.approx(1.25 * loss.value.item() + KL_COEF * kl, rel=NEAR)
    assert_near(gradient_of_theirs_BT, 1.25 * gradient_BT + KL_COEF * gradient_of_kl_BT)
    assert logged["vllm_kl"] == pytest.approx(-math.log(1.25), rel=NEAR)


def test_what_openrlhf_logs_as_kl_is_the_embedded_trainers():
    made = batch(LENGTHS["ragged"], 0)
    loss, _ = ours(*made, LossRules(0.2, KL_COEF))
    assert theirs(*made, 8)[2]["kl"] == pytest.approx(loss.kl.item(), rel=NEAR)


def test_where_a_token_is_ten_nats_from_the_reference_openrlhfs_kl_stops_and_the_embedded_trainers_does_not():
    """OpenRLHF bounds a token's k3 at 10, reached where the reference finds the token e^2.6 times likelier."""
    logprob_BT, reference_BT = (torch.tensor([[value]], dtype=torch.float64) for value in (-4.0, -1.0))
    made = (logprob_BT, logprob_BT, reference_BT, torch.zeros(1, dtype=torch.float64), torch.ones(1, 1))
    loss, gradient_BT = ours(*made, LossRules(0.2, KL_COEF))
    of_theirs, gradient_of_theirs_BT, _ = theirs(*made, 1)
    assert loss.kl.item() == pytest.approx(math.exp(3) - 4)
    assert gradient_BT.item() == pytest.approx(KL_COEF * (1 - math.exp(3)))
    assert of_theirs == pytest.approx(KL_COEF * 10)
    assert gradient_of_theirs_BT.item() == 0
