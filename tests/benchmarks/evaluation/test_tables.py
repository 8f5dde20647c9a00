"""Tables: every number with its interval, n and variant, and nothing published beside another metric."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.evaluation.results import PUBLISHED, Results, beside
from benchmarks.evaluation.tables import WIDTH, blocks, markdown, text, width
from tests.benchmarks.evaluation.suite_results import ABOUT, alignment, score, summarization


def block(results, title):
    return next(block for block in blocks(results) if block.title == title)


def test_a_metrics_variants_are_one_block_that_names_them():
    found = block(summarization(), "rouge-l F")
    assert found.heading == "rouge-l F (rouge 1.0.1), %"
    assert [found.column(name) for name in found.sets] == [
        "GovReport",
        "VCSum (jieba's words for Chinese)",
        "SAMSum (few-shot)",
    ]
    assert list(found.rows) == ["model", "base", "lead baseline", "model minus base"]


def test_published_rows_stand_under_the_published_metric_alone():
    assert [row.label for row in block(summarization(), "rouge-l F").published][:2] == ["Qwen3-4B", "Qwen3-4B + R-Zero"]
    assert block(summarization(), "rougeL F").published == []
    rates = block(summarization(), "model against base, overall").published
    assert next(row for row in rates if row.label == "Qwen3-8B + SpyRL").values == {
        "govreport": 78.2,
        "vcsum": 72.5,
        "samsum": 79.5,
    }


def test_nothing_published_stands_beside_samsum_without_examples():
    results = summarization()
    zero = [replace(one, metric=one.metric.replace("few-shot", "zero-shot")) for one in results.scores]
    assert all("samsum" not in row.values for row in block(replace(results, scores=zero), "rouge-l F").published)


@pytest.mark.parametrize("metric", ["accuracy, greedy", "accuracy (greedy)", "accuracy, mean of 16 samples"])
def test_accuracies_are_one_block_however_they_are_decoded(metric):
    scores = [
        score("gsm8k", metric, "model", 0.9),
        score("gsm8k", f"difference of {metric}", "model against base", 0.1),
    ]
    found = blocks(Results("reasoning", scores, {}))
    assert [(one.title, list(one.rows)) for one in found] == [("accuracy", ["model", "model minus base"])]
    assert found[0].published[1].values == {"gsm8k": 93.4}


def test_the_published_numbers_are_those_of_the_tables():
    assert len(PUBLISHED) == 6 + 6 + 10 + 4
    values = {
        (row.suite, row.metric, row.label, name): value for row in PUBLISHED for name, value in row.values.items()
    }
    assert values["summarization", "rouge-l F", "Qwen3-4B + SpyRL", "govreport"] == 36.7
    assert values["summarization", "win rate, overall", "Qwen3-4B + R-Zero", "multi_news"] == 48.2
    assert values["creative_writing", "win rate, consistency", "Qwen3-8B + SpyRL", "writingbench"] == 71.2
    assert values["reasoning", "accuracy", "Qwen3-8B", "gpqa"] == 33.3
    assert beside("reasoning", "accuracy", ["arxiv"]) == []


def test_a_table_in_a_terminal_is_aligned_and_no_wider_than_it():
    lines = [line for line in markdown(summarization(), ABOUT).splitlines() if line.startswith("|")]
    assert max(map(width, lines)) <= WIDTH
    rouge = lines[: lines.index(next(line for line in lines if "SpyRL" in line)) + 1]
    assert len({width(line) for line in rouge[:5]}) == 1
    assert any("34.0 [32.0, 36.0], n 200" in line for line in lines)


def test_what_was_left_out_the_notes_and_the_protocol_stand_below():
    shown = markdown(summarization(), ABOUT)
    assert "- GovReport: model: 3 shortened; base: 3 shortened, 1 empty\n" in shown
    assert "- a note\n" in shown
    assert '- decoding: {"govreport": "greedy"}\n' in shown
    assert "- model: models/ours\n" in shown
    assert "bootstrap over items" in shown


def test_a_part_of_a_set_does_not_hide_what_was_counted_in_the_whole():
    whole = score("writingbench", "checklist score (1-10)", "model", 5.0, {"unreadable verdict": 9}, percent=False)
    part = score("writingbench", "checklist score (1-10), zh", "model", 5.0, {"unreadable verdict": 2}, percent=False)
    assert "- WritingBench: model: 9 unreadable verdict" in markdown(Results("creative_writing", [whole, part], {}), {})


def test_numbers_without_intervals_name_no_way_to_compute_them():
    alone = replace(score("gsm8k", "accuracy (greedy)", "model", 0.5), low=None, high=None)
    assert "from n items\n" in markdown(Results("reasoning", [alone], {}), {})


def test_numbers_that_are_no_shares_say_so_beside_those_that_are():
    shown = markdown(alignment(), {})
    assert "## judge's ranking\n" in shown
    assert "| most voted is ranked worst, %" in shown
    assert "3.400 [3.100, 3.700], n 100" in shown
    assert "## games, %\n" in shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [("a|b", "a\\|b"), ("<script>", "\\<script>"), ("a\nb", "a b"), ("`x`", "\\`x\\`"), ("\\", "\\\\")],
)
def test_names_cant_end_a_cell_or_add_markup(given, shown):
    assert text(given) == shown


def test_a_missing_or_undefined_number_is_a_dash_and_never_zero():
    scores = [score("gsm8k", "accuracy", "model", 0.5), score("aime24", "accuracy", "base", float("nan"), half=0, n=0)]
    rows = [
        line for line in markdown(Results("reasoning", scores, {}), {}).splitlines() if line.startswith(("| m", "| b"))
    ]
    cells = [[cell.strip() for cell in row.split("|")[2:4]] for row in rows]
    assert cells == [["50.0 [48.0, 52.0], n 200", "–"], ["–", "–, n 0"]]
