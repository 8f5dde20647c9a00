"""When the trained stage changes: thresholds, running averages, patience, and the plainer schedules."""

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spy_env import RewardRules, Stage
from tests.trainers.made_games import referees_said, voted
from trainers.curriculum import Average, Curriculum, Schedule

P, D = Stage.PERFORMING, Stage.DETECTION
PERFECT, AWFUL = [referees_said(10)], [referees_said(0, 10)]


def start(kind="hysteresis", entropy_low=0, **settings):
    """Before the first iteration. The same game again and again has votes without entropy, which only some tests are about."""
    return Curriculum.start(Schedule(kind, entropy_low=entropy_low, **settings), RewardRules())


def after(curriculum, *batches):
    for batch in batches:
        curriculum = curriculum.after(batch)
    return curriculum


def stages(curriculum, batches):
    """The stage of each iteration."""
    trained = []
    for batch in batches:
        trained.append(curriculum.stage)
        curriculum = curriculum.after(batch)
    return trained


def performing(**settings):
    """At the start of a performing stage, with empty averages."""
    return Curriculum(Schedule(**settings), stage=P)


def test_detection_comes_first_unless_performing_alone_is_trained():
    kinds = ("hysteresis", "cycle", "detection", "performing")
    assert [start(kind).stages for kind in kinds] == [(D,), (D,), (D,), (P,)]
    assert [start(kind).trained for kind in kinds] == [D, D, D, P]


def test_joint_trains_both_stages_and_a_game_records_none():
    curriculum = after(start("joint"), *[PERFECT] * 30, *[AWFUL] * 30)
    assert (curriculum.stages, curriculum.trained) == ((P, D), None)
    assert (curriculum.iteration, curriculum.forced) == (60, 0)


@pytest.mark.parametrize(("kind", "stage"), [("detection", D), ("performing", P)])
def test_one_stage_alone_never_changes(kind, stage):
    assert set(stages(start(kind), [PERFECT] * 30 + [AWFUL] * 30)) == {stage}


def test_a_cycle_counts_iterations_and_nothing_else():
    for batches in ([PERFECT] * 12, [AWFUL] * 12):
        assert stages(start("cycle", cycle=(2, 3)), batches) == [D, D, P, P, P, D, D, P, P, P, D, D]
    assert after(start("cycle", cycle=(2, 3)), *[PERFECT] * 12).forced == 0


@pytest.mark.parametrize(
    ("votes", "switches"),
    [
        ({"right": 9, "abstained": 1}, True),  # both thresholds of Eq 11 to the point
        ({"right": 9, "wrong": 1}, True),
        ({"right": 9, "unreadable": 1}, True),
        ({"right": 89, "wrong": 11}, False),
        ({"right": 10}, True),
        ({"right": 0, "wrong": 10}, False),
    ],
)
def test_detection_is_over_at_nine_right_votes_in_ten(votes, switches):
    assert (after(start(), *[[referees_said(**votes)]] * 5).stage is P) == switches


@pytest.mark.parametrize(("abstained", "switches"), [(1, True), (2, False)])
def test_detection_goes_on_while_too_many_abstain(abstained, switches):
    votes = referees_said(7, 3 - abstained, abstained)
    assert (after(start(accuracy_enough=0.7), *[[votes]] * 5).stage is P) == switches


@pytest.mark.parametrize(
    ("votes", "switches"),
    [
        ({"right": 6, "wrong": 4}, True),  # the threshold of Eq 12 to the point
        ({"right": 6, "unreadable": 4}, True),
        ({"right": 6, "abstained": 4}, True),
        ({"right": 61, "wrong": 39}, False),
        ({"right": 10}, False),
    ],
)
def test_performing_is_over_at_four_votes_in_ten_that_are_not_right(votes, switches):
    assert (after(performing(), *[[referees_said(**votes)]] * 5).stage is D) == switches


@pytest.mark.parametrize(("abstained", "switches"), [(50, True), (49, False)])
def test_performing_is_over_when_half_of_the_votes_abstain(abstained, switches):
    votes = referees_said(100 - abstained, 0, abstained)
    assert (after(performing(error_high=0.9), *[[votes]] * 5).stage is D) == switches


def test_a_perfect_start_switches_after_k_min_iterations_and_not_after_45():
    assert stages(start(), [PERFECT] * 6) == [D] * 5 + [P]
    assert stages(start(k_min=2), [PERFECT] * 4) == [D, D, P, P]
    assert after(start(), *[PERFECT] * 5).forced == 0


def test_every_stage_lasts_k_min_iterations_whatever_the_averages_say():
    # rho 0: the average is the last batch, so each stage wants to end at once
    assert stages(start(rho=0, k_min=3), [PERFECT] * 3 + [AWFUL] * 3 + [PERFECT] * 3) == [D] * 3 + [P] * 3 + [D] * 3


def test_patience_ends_a_stage_and_the_switch_is_counted_as_forced():
    halfway = [referees_said(7, 3)]  # earns neither switch
    curriculum = start(patience=7)
    assert stages(curriculum, [halfway] * 15) == [D] * 7 + [P] * 7 + [D]
    assert [after(curriculum, *[halfway] * count).forced for count in (6, 7, 13, 14)] == [0, 1, 1, 2]
    assert after(curriculum, *[halfway] * 7).since == 0


def test_a_switch_earned_when_patience_ends_is_not_forced():
    curriculum = after(start(rho=0, patience=6), *[AWFUL] * 5, PERFECT)
    assert (curriculum.stage, curriculum.forced) == (P, 0)


def naming(*numbers):
    """Games of four, each with another spy, in which all civilians name one number."""
    return [voted(" ".join([str(number)] * 4), str(i), spy=f"player_{1 + i % 4}") for i, number in enumerate(numbers)]


ALIKE, DIFFERENT = naming(1, 1, 1, 1), naming(1, 2, 3, 4)


@pytest.mark.parametrize(("kind", "settings"), [("hysteresis", {}), ("cycle", {"cycle": (9, 1)})])
def test_votes_that_all_name_one_number_end_detection_and_the_switch_is_forced(kind, settings):
    curriculum = start(kind, entropy_low=0.1, **settings)
    assert stages(curriculum, [ALIKE] * 6) == [D] * 5 + [P]
    assert after(curriculum, *[ALIKE] * 5).forced == 1
    assert stages(start(kind, **settings), [ALIKE] * 6) == [D] * 6  # without a threshold


def test_votes_that_all_abstain_are_as_saturated_and_votes_for_different_numbers_are_not():
    abstain = [voted("N/A N/A N/A N/A")]
    assert after(start(entropy_low=0.1), *[abstain] * 5).saturated is False  # performing has begun
    assert after(start(entropy_low=0.1), *[abstain] * 5).stage is P
    assert stages(start(entropy_low=0.1, accuracy_enough=2), [DIFFERENT] * 6) == [D] * 6
    assert after(start(), DIFFERENT).entropy == pytest.approx(log(4))


def test_votes_that_are_all_right_in_small_batches_are_not_saturated():
    # each batch names one number, another one each time
    batches = [[game] for game in naming(1, 2, 3, 4) * 2]
    assert stages(start(entropy_low=0.1, accuracy_enough=2), batches) == [D] * 8


def test_the_entropy_of_votes_is_of_recent_ones():
    curriculum = after(start(rho=0.5), *[DIFFERENT] * 10)
    assert after(curriculum, *[ALIKE] * 10).entropy < 0.02 < log(4) - 0.01 < curriculum.entropy


def test_averages_run_through_a_switch():
    through = after(start(), *[PERFECT] * 5)
    assert through.stage is P
    assert (through.accuracy.value, through.accuracy.weight) == (1, pytest.approx(1 - 0.95**5))
    # after n more at 1/2 the average is (1 + w) / 2, where w = 0.95^n (1 - 0.95^5) / (1 - 0.95^(5+n)) is the share of the
    # first five; w is 0.210 for n = 12 and 0.193 for n = 13, the first that leaves at most 0.6
    assert stages(through, [[referees_said(5, 5)]] * 14) == [P] * 13 + [D]


def test_accuracy_and_abstention_are_shares_of_all_replies_over_the_whole_batch():
    batch = [referees_said(3, 1, 2, 2, seed="a"), referees_said(2, seed="b")]
    curriculum = start().after(batch)
    assert (curriculum.accuracy.value, curriculum.abstention.value) == (0.5, 0.2)


@pytest.mark.parametrize(("spys_vote", "seed"), [("1", "a"), ("2", "b"), ("N/A", "c"), ("?", "d")])
def test_the_spys_own_vote_moves_no_average(spys_vote, seed):
    curriculum = start().after([voted(f"{spys_vote} 1 2 N/A", seed)])
    assert curriculum.accuracy.value == pytest.approx(1 / 3)
    assert curriculum.abstention.value == pytest.approx(1 / 3)


def test_the_votes_of_civilians_who_vote_alone_move_the_averages():
    curriculum = start().after([voted("2 N/A 1", spy="player_2", voters="civilians")])
    assert (curriculum.accuracy.value, curriculum.abstention.value) == pytest.approx((1 / 3, 1 / 3))


def test_the_averages_move_in_both_stages():
    moved = [after(curriculum, PERFECT, AWFUL) for curriculum in (start("detection"), start("performing"))]
    assert moved[0].accuracy == moved[1].accuracy
    assert moved[0].accuracy.value == pytest.approx(0.95 / 1.95)  # weights 0.95 and 1


def test_an_average_is_zero_before_its_first_value_and_then_that_value():
    assert Average().value == 0
    for value in (0.9, 1 / 3, 0.1, 1.0, 0.0):
        assert Average().after(value, 0.95).value == value


@given(st.floats(0, 1), st.floats(0, 0.999), st.integers(1, 60))
@settings(deadline=None)
def test_an_average_of_equal_values_is_exactly_that_value(value, rho, count):
    average = Average()
    for _ in range(count):
        average = average.after(value, rho)
    assert average.value == value


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0, 0.999))
@settings(deadline=None)
def test_an_average_weighs_each_value_by_its_age(values, rho):
    average = Average()
    for value in values:
        average = average.after(value, rho)
    weights = [rho ** (len(values) - 1 - i) for i in range(len(values))]
    expected = sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
    assert average.value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"schedule": "random"}, r"schedule is 'random'; choose one of \['hysteresis', 'cycle', 'detection'"),
        ({"cycle": (0, 5)}, r"cycle is \(0, 5\); it must be at least 1"),
        ({"cycle": (5, 0)}, r"cycle is \(5, 0\)"),
        ({"k_min": 0}, "k_min is 0; it must be at least 1"),
        ({"k_min": 21}, "k_min is 21 and patience 20"),
        ({"patience": 4}, "k_min is 5 and patience 4"),
        ({"rho": 1.0}, "rho is 1.0; it must be at least 0 and below 1"),
        ({"rho": -0.1}, "rho is -0.1"),
        ({"rho": float("nan")}, "rho is nan"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Schedule(**wrong)


def test_the_default_schedule_is_the_papers():
    schedule = Schedule()
    assert (schedule.accuracy_enough, schedule.abstention_low) == (0.9, 0.1)
    assert (schedule.error_high, schedule.abstention_high) == (0.4, 0.5)
    assert (schedule.k_min, schedule.patience, schedule.rho) == (5, 20, 0.95)
