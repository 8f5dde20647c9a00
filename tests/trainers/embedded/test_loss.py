"""The loss and its gradient, against both written out by hand: plain loops in float64, no autograd."""

from math import exp, log

import pytest
import torch

from trainers.embedded.loss import AGGREGATIONS, RATIOS, LossRules, Whole, aggregate, k3, loss_of, policy_objective

GARBAGE = (0.0, -3.0, 1e4, -1e4)  # exp(1e4) overflows
# Three replies of 3, 1 and 2 tokens, one advantage each. Ratios lie within the clip range and beyond it on both sides,
# by token and by sequence, under advantages of both signs; the reference is neither the policy nor what was sampled from.
CURRENT = [[-0.9, -0.4, -1.3], [-0.7], [-1.1, -2.0]]
OLD = [[-1.3, -0.5, -1.0], [-0.3], [-1.0, -1.2]]
REFERENCE = [[-1.0, -0.2, -1.9], [-1.5], [-0.6, -2.2]]
ADVANTAGES = [1.5, 0.8, -0.6]


def padded(rows, filling=0.0, width=3):
    return torch.tensor([[*row, *[filling] * (width - len(row))] for row in rows], dtype=torch.float64)


def mask_of(rows, width=3):
    return padded([[1.0] * len(row) for row in rows], 0.0, width)


def computed(current, old, reference, advantages, rules, whole, filling=0.0, width=3):
    """The loss's parts and its gradient by log-probability, padding included."""
    logprobs_BT = padded(current, filling, width).requires_grad_()
    reference_BT = None if reference is None else padded(reference, -filling, width)
    advantages_B = torch.tensor(advantages, dtype=torch.float64)
    mask_BT = mask_of(current, width)
    loss = loss_of(logprobs_BT, padded(old, filling, width), reference_BT, advantages_B, mask_BT, rules, whole)
    loss.value.backward()
    return loss, logprobs_BT.grad


def whole_of(rows):
    return Whole(sum(map(len, rows)), len(rows))


def by_hand(current, old, reference, advantages, rules, whole):
    """Loss and gradient, worked out on paper.

    d/dl of min(ratio A, clip(ratio) A) is A times d ratio/dl, or 0 where the clipped term is the smaller. A token's own
    ratio has derivative ratio; a product has derivative ratio by each of its tokens; a geometric mean ratio / length.
    d/dl of exp(ref - l) - (ref - l) - 1 is 1 - exp(ref - l).
    """
    value, gradient = 0.0, []
    for now, then, ref, advantage in zip(current, old, reference, advantages, strict=True):
        length = len(now)
        weight = 1 / whole.tokens if rules.aggregation == "token-mean" else 1 / (whole.samples * length)
        logs = [a - b for a, b in zip(now, then, strict=True)]
        row = []
        for t in range(length):
            if rules.ratio == "token":
                ratio, share, slope = exp(logs[t]), 1.0, exp(logs[t])
            elif rules.ratio == "sequence":  # one term a sequence: each token brings its length-th part
                ratio, share, slope = exp(sum(logs)), 1 / length, exp(sum(logs))
            else:
                ratio, share, slope = exp(sum(logs) / length), 1.0, exp(sum(logs) / length)
            bounded = min(max(ratio, 1 - rules.clip), 1 + rules.clip)
            value -= weight * share * min(ratio * advantage, bounded * advantage)
            taken_hold = bounded * advantage < ratio * advantage
            difference = ref[t] - now[t]
            value += rules.kl_coef * weight * (exp(difference) - difference - 1)
            of_policy = 0.0 if taken_hold else -weight * slope * advantage
            row.append(of_policy + rules.kl_coef * weight * (1 - exp(difference)))
        gradient.append(row)
    return value, gradient


@pytest.mark.parametrize("kl_coef", [0.0, 0.3])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_loss_and_gradient_are_as_worked_out_by_hand(aggregation, ratio, kl_coef):
    rules = LossRules(0.2, kl_coef, aggregation, ratio)
    for advantages in (ADVANTAGES, [-a for a in ADVANTAGES]):
        whole = whole_of(CURRENT)
        loss, gradient = computed(CURRENT, OLD, REFERENCE, advantages, rules, whole)
        value, by_token = by_hand(CURRENT, OLD, REFERENCE, advantages, rules, whole)
        assert loss.value.item() == pytest.approx(value, abs=1e-12)
        torch.testing.assert_close(gradient, padded(by_token), rtol=0, atol=1e-12)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize(
    ("now", "advantage", "value", "slope"),
    [
        (1.5, 1.0, -1.2, 0.0),  # above, wanted: no more is to be had
        (1.5, -1.0, 1.5, 1.5),  # above, unwanted: pushed back
        (0.5, 1.0, -0.5, -0.5),  # below, wanted: pulled up
        (0.5, -1.0, 0.8, 0.0),  # below, unwanted: enough
        (1.1, 2.0, -2.2, -2.2),
        (0.9, -2.0, 1.8, 1.8),
        (1.0, 0.0, 0.0, 0.0),
    ],
)
def test_clipping_takes_hold_only_where_it_lowers_the_objective(ratio, now, advantage, value, slope):
    rules = LossRules(0.2, 0.0, ratio=ratio)
    loss, gradient = computed([[log(now) - 1]], [[-1.0]], None, [advantage], rules, Whole(1, 1), width=1)
    assert loss.value.item() == pytest.approx(value, abs=1e-12)
    assert gradient.item() == pytest.approx(slope, abs=1e-12)
    assert loss.clipped.item() == (slope == 0 and advantage != 0)


def test_k3_of_a_token_half_as_likely_under_the_reference():
    logprob = torch.tensor([[log(0.5)]], dtype=torch.float64, requires_grad=True)
    kl = k3(logprob, torch.tensor([[log(0.25)]], dtype=torch.float64))
    kl.backward()
    assert kl.item() == pytest.approx(0.5 + log(2) - 1)
    assert logprob.grad.item() == pytest.approx(0.5)
    assert k3(torch.tensor([0.3]), torch.tensor([0.3])).item() == 0


def test_both_means_of_a_long_and_a_short_reply():
    values, mask = padded([[1, 2, 6], [5]], filling=99), mask_of([[1, 2, 6], [5]])
    assert aggregate(values, mask, "token-mean", Whole(4, 2)).item() == 14 / 4
    assert aggregate(values, mask, "seq-mean-token-mean", Whole(4, 2)).item() == (3 + 5) / 2


def test_the_parts_add_up_and_carry_no_gradient():
    rules = LossRules(0.2, 0.3)
    loss, _ = computed(CURRENT, OLD, REFERENCE, ADVANTAGES, rules, whole_of(CURRENT))
    assert loss.value.item() == pytest.approx(loss.policy.item() + 0.3 * loss.kl.item(), abs=1e-12)
    assert not any(part.requires_grad for part in (loss.policy, loss.kl, loss.clipped))
    # of six tokens, the first's ratio e^0.4 is too high for its gain, the last's e^-0.8 too low for its loss
    assert loss.clipped.item() == pytest.approx(2 / 6)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_what_stands_in_padding_changes_nothing(aggregation, ratio):
    rules = LossRules(0.2, 0.3, aggregation, ratio)
    results = [
        computed(CURRENT, OLD, REFERENCE, ADVANTAGES, rules, whole_of(CURRENT), filling, width)
        for filling in GARBAGE
        for width in (3, 5)
    ]
    first, gradient = results[0]
    for loss, other in results:
        for part in ("value", "policy", "kl", "clipped"):
            torch.testing.assert_close(getattr(loss, part), getattr(first, part), rtol=0, atol=1e-15)
        torch.testing.assert_close(other[:, :3], gradient, rtol=0, atol=1e-15)
        assert not other[:, 3:].any()
        assert not other[mask_of(CURRENT, other.shape[1]) == 0].any()


def test_padding_makes_no_infinity_in_float32_either():
    logprobs_BT = torch.tensor([[-0.5, -200.0]], requires_grad=True)
    reference_BT, mask_BT = torch.tensor([[-0.6, -1.0]]), torch.tensor([[1.0, 0.0]])
    loss = loss_of(
        logprobs_BT, torch.zeros(1, 2), reference_BT, torch.ones(1), mask_BT, LossRules(kl_coef=0.1), Whole(1, 1)
    )
    loss.value.backward()
    assert torch.isfinite(loss.value)
    assert torch.isfinite(logprobs_BT.grad).all()


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_micro_batches_add_up_to_the_whole_batch(aggregation, ratio):
    rules, whole = LossRules(0.2, 0.3, aggregation, ratio), whole_of(CURRENT)
    full, gradient = computed(CURRENT, OLD, REFERENCE, ADVANTAGES, rules, whole)
    for parts in ([slice(0, 1), slice(1, 3)], [slice(0, 2), slice(2, 3)], [slice(i, i + 1) for i in range(3)]):
        results = [
            computed(CURRENT[part], OLD[part], REFERENCE[part], ADVANTAGES[part], rules, whole) for part in parts
        ]
        for name in ("value", "policy", "kl", "clipped"):
            total = sum(getattr(loss, name) for loss, _ in results)
            torch.testing.assert_close(total, getattr(full, name), rtol=0, atol=1e-12)
        torch.testing.assert_close(torch.cat([own for _, own in results]), gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kl_coef", [0.0, 0.3])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_at_ratio_one_all_ratios_have_the_same_gradient(aggregation, kl_coef):
    gradients = [
        computed(CURRENT, CURRENT, REFERENCE, ADVANTAGES, LossRules(0.2, kl_coef, aggregation, ratio), Whole(6, 3))[1]
        for ratio in RATIOS
    ]
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0], rtol=0, atol=1e-15)
    assert gradients[0].abs().max() > 0.1


def test_ratios_differ_as_soon_as_the_policy_has_moved():
    gradients = [
        computed(CURRENT, OLD, None, ADVANTAGES, LossRules(0.9, 0.0, ratio=ratio), Whole(6, 3))[1] for ratio in RATIOS
    ]
    for i, gradient in enumerate(gradients):
        assert all((gradient - other).abs().max() > 1e-3 for other in gradients[i + 1 :])


def test_without_a_reference_there_is_no_kl():
    rules = LossRules(0.2, 0.3)
    loss, _ = computed(CURRENT, OLD, None, ADVANTAGES, rules, whole_of(CURRENT))
    assert loss.kl.item() == 0
    assert loss.value.item() == loss.policy.item()


def test_a_sequences_tokens_are_clipped_together():
    mask_BT = mask_of(CURRENT)
    current, old, advantages = padded(CURRENT), padded(OLD), torch.tensor(ADVANTAGES, dtype=torch.float64)
    _, by_sequence = policy_objective(current, old, advantages, mask_BT, LossRules(ratio="sequence"))
    # log ratios of the sequences: +0.2, -0.4, -0.9; the first gains too much, the third loses enough
    assert [row.tolist() for row in by_sequence] == [[True] * 3, [False] * 3, [True] * 3]
    _, by_mean = policy_objective(current, old, advantages, mask_BT, LossRules(ratio="sequence-mean"))
    assert [row.tolist() for row in by_mean] == [[False] * 3, [False] * 3, [True] * 3]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"aggregation": "mean"}, r"loss_agg_mode is 'mean'; choose one of \['token-mean', 'seq-mean-token-mean'\]"),
        ({"ratio": "word"}, r"ratio is 'word'; choose one of \['token', 'sequence', 'sequence-mean'\]"),
    ],
)
def test_rules_that_are_not_known_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        LossRules(**wrong)


def test_the_default_loss_is_the_papers():
    assert LossRules() == LossRules(0.2, 0.001, "token-mean", "token")
