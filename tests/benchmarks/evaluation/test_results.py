"""What is written is read back the same, is JSON for everybody, and is shown with its interval."""

from __future__ import annotations

import json
import math

import pytest

from benchmarks.evaluation.intervals import Interval, mean
from benchmarks.evaluation.results import Results, read_results, score_of, shown, write_results

SCORES = [
    score_of("qmsum", "rouge-l F", "model", mean([0.1, 0.4, 0.3]), {"empty": 2, "failed": 0}),
    score_of("vcsum", "会议", "model against base", Interval(-0.01, None, None, 1)),
    score_of("votes", "rho", "base", Interval(-0.4, -0.5, 0.1, 9), percent=False),
]


def test_results_are_read_back_as_they_were_written(tmp_path):
    results = Results("summarization", SCORES, {"decoding": "greedy", "lead": {"qmsum": 70}}, ["a note", "会议"])
    write_results(results, tmp_path / "new", {"model": "m", "seed": 3})
    again, about = read_results(tmp_path / "new" / "results.json")
    assert again == results
    assert about == {"model": "m", "seed": 3}
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "results.json"]


def test_a_number_that_cannot_be_computed_is_null_in_json_and_nan_again_when_read(tmp_path):
    write_results(Results("s", [score_of("a", "m", "model", mean([]))], {}), tmp_path, {})
    text = (tmp_path / "results.json").read_text()
    (row,) = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["scores"]
    assert (row["value"], row["low"], row["n"]) == (None, None, 0)
    (score,) = read_results(tmp_path / "results.json")[0].scores
    assert math.isnan(score.value)
    assert shown(score) == "–"


def test_counts_of_zero_are_left_out():
    assert SCORES[0].counts == {"empty": 2}
    assert SCORES[1].counts == {}


@pytest.mark.parametrize(
    ("interval", "percent", "text"),
    [
        (Interval(0.3021, 0.2876, 0.3155, 200), True, "30.2 [28.8, 31.6]"),
        (Interval(-0.4, -0.5125, 0.1, 9), False, "-0.400 [-0.512, 0.100]"),
        (Interval(0.5, None, None, 1), True, "50.0"),
        (Interval(0.0, 0.0, 0.0, 5), True, "0.0 [0.0, 0.0]"),
    ],
)
def test_a_score_is_shown_with_its_interval(interval, percent, text):
    assert shown(score_of("s", "m", "model", interval, percent=percent)) == text
