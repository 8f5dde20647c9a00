"""What only a civilian can have read, and how much of it a text tells."""

from __future__ import annotations

import pytest
from benchmark_games import played

from benchmarks.evaluation.hidden_words import content_words, coverage, only_hidden


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Harbour fund spent $18.2 million.", {"harbour", "fund", "spent", "18", "2", "million"}),
        ("It was not the other one's, but THEIRS", {"one's", "theirs"}),
        ("État, Ärger", {"état", "ärger"}),
        ("会议讨论", {"会议", "议讨", "讨论"}),
        ("用", {"用"}),
        ("GDP上升3点", {"gdp", "上升", "3", "点"}),
        ("", set()),
        ("*** ... an of", set()),
    ],
)
def test_content_words_are_numbers_and_words_that_tell_something(text, words):
    assert content_words(text) == words


def test_only_what_stands_nowhere_else_is_hidden():
    game = played(
        "2 2 2 2 2", text="Rye was lost. The mill lost 40 sacks of rye on Monday.", hidden="mill lost 40 sacks of rye"
    )
    assert only_hidden(game) == {"mill", "40", "sacks"}


def test_nothing_is_hidden_without_a_span():
    assert only_hidden(played("2 2 2 2 2", hidden="")) == set()


def test_coverage_is_the_share_of_the_words_that_a_text_holds():
    assert coverage("40 Sacks burned; 40 sacks!", {"40", "sacks", "rye", "mill"}) == 0.5
    assert coverage("", {"rye"}) == 0.0
