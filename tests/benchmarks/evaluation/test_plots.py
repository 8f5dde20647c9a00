"""Plots: what they show as plain values, and files that are the same for the same numbers."""

from __future__ import annotations

import sys

import pytest

from benchmarks.evaluation.plots import Point, draw, panels
from benchmarks.evaluation.results import Results
from tests.benchmarks.evaluation.suite_results import alignment, score, summarization


def test_a_suites_panels_show_contestants_by_data_set_and_what_is_published():
    rouge, google, rates = panels(summarization())
    assert rouge.xs == ["GovReport", "VCSum", "SAMSum"]
    assert list(rouge.series) == ["model", "base", "lead baseline"]
    assert rouge.series["model"][0] == pytest.approx(Point(34.0, 32.0, 36.0))
    assert rouge.published["Qwen3-4B", "SpyRL"] == {"GovReport": 36.7, "VCSum": 19.1, "SAMSum": 48.2}
    assert ("Qwen3-4B", "R-Zero") not in rouge.published, "in the table only"
    assert google.published == {}
    assert rates.level == 50.0
    assert list(rates.series) == ["win rate", "length-controlled win rate"]


def test_several_criteria_make_a_panel_of_each_data_set():
    scores = [
        score(name, f"win rate, {criterion}", "model against base", value)
        for name in ("writingprompts", "writingbench")
        for criterion, value in (("novelty", 0.8), ("overall", 0.7))
    ]
    first, second = panels(Results("creative_writing", scores, {}))
    assert (first.title, second.title) == ("model against base, WritingPrompts", "model against base, WritingBench")
    assert first.xs == ["novelty", "overall"]
    assert second.published["Qwen3-4B", "SpyRL"] == {"novelty": 76.2, "overall": 75.1}


def test_the_alignment_study_is_mean_rank_by_votes_received():
    (panel,) = panels(alignment())
    assert panel.xs == ["0", "1", "2"]
    assert [point.value for point in panel.series["creative_writing"]] == [2.8, 3.0, 3.4]
    assert panel.level == pytest.approx((2.8 + 3.0 + 3.4) / 3)
    assert "rank" in panel.y_label
    assert panel.x_label == "votes received"


def test_what_is_not_a_number_is_not_drawn():
    scores = [score("gsm8k", "accuracy", "model", float("nan"))]
    assert panels(Results("reasoning", scores, {})) == []


def test_the_same_numbers_give_the_same_files(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need the plot extra")
    for folder in ("a", "b"):
        draw(alignment(), tmp_path / folder)
    for name in ("plot.svg", "plot.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    svg = (tmp_path / "a" / "plot.svg").read_text()
    assert all(words in svg for words in ("votes received", "mean rank", "creative_writing"))


def test_without_matplotlib_there_is_a_note_and_no_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = []
    assert draw(alignment(), tmp_path, said.append) == []
    assert "pip install -e '.[plot]'" in said[0]


def test_names_with_signs_of_mathematics_or_markup_are_drawn_as_they_are(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need the plot extra")
    draw(Results("reasoning", [score("$x_{<b>$", "accuracy", "model", 0.5)], {}), tmp_path)
    assert "$x_{&lt;b&gt;$" in (tmp_path / "plot.svg").read_text()
