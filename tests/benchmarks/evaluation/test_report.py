"""The report: one page that needs nothing from outside, and in which nothing from outside can be markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from benchmarks.evaluation.plots import INK, PAPER, draw
from benchmarks.evaluation.report import write_report
from benchmarks.evaluation.results import Results, write_results
from tests.benchmarks.evaluation.suite_results import ABOUT, alignment, score, summarization

HOSTILE = '<script>alert("x")</script>'
VOID = {"meta", "br", "hr", "img", "path", "use"}


class Reader(HTMLParser):
    """The tags, the ids and the texts of a page; fails where a tag isn't closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.words = [], set(), [], [], ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] for name in ("href", "src", "xlink:href") if name in values]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_data(self, data):
        self.words += data


@pytest.fixture
def output(tmp_path):
    def write(*suites, about=ABOUT, plots=True):
        for results in suites:
            write_results(results, tmp_path / results.suite, about)
            if plots:
                pytest.importorskip("matplotlib", reason="plots need the plot extra")
                draw(results, tmp_path / results.suite)
        return tmp_path

    return write


def test_the_page_holds_the_tables_plots_settings_and_counts_of_all_suites(output):
    folder = output(summarization(), alignment())
    page = write_report(folder).read_text(encoding="utf-8")
    read = Reader(page)
    assert page.count("<svg") == 2
    for words in ("GovReport", "34.0 [32.0, 36.0], n 200", "Qwen3-4B + SpyRL", "36.7", "3 shortened", "a note"):
        assert words in read.words
    for words in (
        "rouge-l F (rouge 1.0.1), %",
        "python 3.11",
        "seed: 0",
        "limit: none",
        "models/ours",
        "judge's ranking",
    ):
        assert words in read.words
    assert read.words.index("Summarization") < read.words.index("Alignment")
    plain = (folder / "report.md").read_text(encoding="utf-8")
    assert "![summarization](summarization/plot.png)" in plain
    assert "# alignment" in plain


def test_the_page_fetches_nothing_and_its_ids_are_its_own(output):
    page = write_report(output(summarization(), alignment())).read_text(encoding="utf-8")
    read = Reader(page)
    assert all(link.startswith("#") for link in read.links)
    assert len(read.ids) == len(set(read.ids))
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page


def test_plots_take_the_pages_colours(output):
    page = write_report(output(alignment())).read_text(encoding="utf-8")
    assert INK not in page.partition("<svg")[2]
    assert PAPER not in page.partition("<svg")[2]
    assert "currentColor" in page


def test_what_comes_from_outside_is_text(output):
    about = {
        **ABOUT,
        "model": {"name": HOSTILE},
        "base": HOSTILE,
        "judge": HOSTILE,
        "data": HOSTILE,
        "versions": {HOSTILE: HOSTILE},
    }
    results = Results(
        "reasoning",
        [score(HOSTILE, f"accuracy ({HOSTILE})", HOSTILE, 0.5, {HOSTILE: 3})],
        {HOSTILE: HOSTILE, "more": {"deep": HOSTILE}},
        [HOSTILE],
    )
    folder = output(results, about=about)
    page = write_report(folder).read_text(encoding="utf-8")
    assert "script" not in Reader(page).tags
    assert page.count("&lt;script&gt;") >= 10
    assert "<script" not in page
    assert not re.search(r"(?<!\\)<script", (folder / "report.md").read_text(encoding="utf-8"))


def test_a_page_without_plots_or_a_model_is_whole(output):
    page = write_report(output(alignment(), about={"model": None, "base": None, "judge": None}, plots=False))
    assert "Evaluation of saved games" in Reader(page.read_text(encoding="utf-8")).words


def test_a_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"no results\.json"):
        write_report(tmp_path)
