"""Intervals hold the truth as often as they say, and claim nothing where items can't tell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.evaluation import intervals
from benchmarks.evaluation.intervals import bootstrap, item_share, mean
from trainers.metrics import share


def test_a_mean_and_its_interval_are_those_of_the_normal_distribution_where_items_are_many():
    values = np.random.default_rng(0).normal(0.3, 0.1, 2000)
    found = mean(values.tolist())
    half = 1.96 * values.std() / 2000**0.5
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=half / 5)
    assert found.high == pytest.approx(values.mean() + half, abs=half / 5)
    assert (found.n, found.method) == (2000, "bootstrap over items")


def test_about_95_of_100_intervals_hold_the_truth(monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 200)
    rng = np.random.default_rng(1)
    trials = [mean(rng.beta(2, 5, 40).tolist(), seed) for seed in range(150)]
    held = sum(trial.low <= 2 / 7 <= trial.high for trial in trials)
    assert 0.9 * 150 <= held <= 0.99 * 150


def test_a_statistic_of_two_columns_is_resampled_in_pairs():
    x = np.random.default_rng(2).normal(0, 1, 50)
    y = x + 0.1
    found = bootstrap(lambda places: float((y[places] - x[places]).mean()), 50)
    assert (found.low, found.value, found.high) == pytest.approx((0.1, 0.1, 0.1))


def test_the_same_seed_gives_the_same_interval():
    values = [0.1, 0.5, 0.2, 0.9, 0.4]
    assert mean(values, 3) == mean(values, 3) != mean(values, 4)


@pytest.mark.parametrize("all_of_them", [0, 1])
def test_items_that_all_agree_are_wilson_s_and_not_certain(all_of_them):
    found = item_share([all_of_them] * 30)
    assert found[:3] == share([all_of_them] * 30, [1] * 30)[:3]
    assert found.high - found.low == pytest.approx(0.1135, abs=1e-3)  # 3.84 / (30 + 3.84)
    assert (found.n, found.method) == (30, "Wilson, as all items agree")


@pytest.mark.parametrize("value", [0.0, 0.5, 7.0])
def test_values_that_are_no_shares_have_no_interval_where_all_agree(value):
    assert mean([value] * 5) == (value, None, None, 5, "none, as all items agree")
    assert item_share([0.5] * 5) == mean([0.5] * 5)


def test_a_difference_has_an_interval_on_both_sides_of_it():
    found = mean([0.0] * 40 + [1.0] * 5 + [-1.0] * 5)
    assert found.low < found.value == 0 < found.high


def test_one_item_has_no_interval_and_none_no_value():
    assert mean([0.4]) == (0.4, None, None, 1, "bootstrap over items")
    nothing = mean([])
    assert math.isnan(nothing.value)
    assert nothing[1:4] == (None, None, 0)


def test_resamples_where_a_statistic_is_undefined_are_left_out_as_long_as_most_are_there():
    rare = np.array([0.0] * 9 + [1.0])

    def only_with_the_rare(places):
        return 1.0 if rare[places].any() else float("nan")

    assert bootstrap(only_with_the_rare, 10)[:3] == (1, 1, 1)  # 65 % of resamples have it
    always = bootstrap(lambda places: float("nan"), 10)
    assert math.isnan(always.value)
    assert always[1:] == (None, None, 10, "bootstrap over items")
    seldom = bootstrap(lambda places: 1.0 if len(set(places.tolist())) == 10 else float("nan"), 10)
    assert seldom[:3] == (1, None, None)
