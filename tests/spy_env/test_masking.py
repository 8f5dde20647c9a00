"""What a spy doesn't see: units, spans and the operators that hide them."""

import unicodedata
from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spy_env.documents import Document, shorten
from spy_env.game import Rules, deal
from spy_env.masking import MARKER, OPERATORS, Span, choose_spans, count_units, hide, unit_start, units

FAMILY = "👨\u200d👩\u200d👧"
THUMB = "👍🏽"
URL = "https://example.org/" + "a" * 2028
TEN_WORDS = "one two three four five six seven eight nine ten"
TEXTS = st.text(st.sampled_from("ab .!?\n\r\u2028\t好。か\u3099e\u0301👍🏽👨👩\u200d\ufe0fｶ\uff9e"), max_size=60)


def unit_texts(text):
    return [text[unit.start : unit.end] for unit in units(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n", []),
        ("one", ["one"]),
        ("  One two,\n\tthree.  ", ["One", "two,", "three."]),
        ("cost $3.50 today", ["cost", "$3.50", "today"]),
        (f"see {URL} now", ["see", URL, "now"]),
        ("今天下雨。", ["今", "天", "下", "雨", "。"]),
        ("第3章 GDP增长", ["第", "3", "章", "GDP", "增", "长"]),
        ("ひらカナ，！", ["ひ", "ら", "カ", "ナ", "，", "！"]),
        ("𠀀𠀁", ["𠀀", "𠀁"]),  # beyond the basic plane
        ("한국어 문장", ["한국어", "문장"]),  # Hangul is written with spaces
        (f"好{FAMILY}好{THUMB}", ["好", FAMILY, "好", THUMB]),
        ("好e\u0301好a", ["好", "e\u0301", "好", "a"]),
        ("か\u3099き\u309a", ["か\u3099", "き\u309a"]),  # kana with combining voiced marks
        ("ｶ\uff9eﾊ\uff9f", ["ｶ\uff9e", "ﾊ\uff9f"]),  # and the half-width ones
        ("葛\U000e0100城", ["葛\U000e0100", "城"]),  # an ideographic variant
        (f"{FAMILY} {THUMB} e\u0301", [FAMILY, THUMB, "e\u0301"]),
    ],
)
def test_a_text_has_exactly_these_units(text, expected):
    assert unit_texts(text) == expected


@given(TEXTS)
def test_no_unit_begins_within_a_combining_or_joined_sequence(text):
    starts = [unit.start for unit in units(text) if unit.start and not text[unit.start - 1].isspace()]
    for start in starts:
        assert unicodedata.category(text[start]) not in ("Mn", "Me", "Mc", "Cf")
        assert text[start] not in "🏽\uff9e"
        assert text[start - 1] != "\u200d"


@given(TEXTS)
def test_units_are_ordered_and_hold_every_visible_character_once(text):
    assert "".join(unit_texts(text)) == "".join(text.split())
    assert all(first.end <= second.start for first, second in pairwise(units(text)))


@given(st.one_of(TEXTS, st.text(max_size=40)))
def test_counting_units_and_finding_one_agree_with_listing_them(text):
    starts = [unit.start for unit in units(text)]
    assert count_units(text) == len(starts)
    assert [unit_start(text, i) for i in range(len(starts) + 2)] == [*starts, len(text), len(text)]


@pytest.mark.parametrize(
    ("count", "fraction", "hidden"),
    [(10, 0.2, 2), (5, 0.2, 1), (5, 0.01, 1), (7, 0.4, 3), (1000, 0.2, 200), (5, 0.5, 2), (15, 0.5, 8), (5, 0.95, 5)],
)
@pytest.mark.parametrize("operator", ["span", "spans", "removal", "marker"])
def test_the_share_of_units_is_hidden_exactly_and_never_less_than_one(operator, count, fraction, hidden):
    text = " ".join(f"w{i}" for i in range(count))
    for seed in range(20):
        spans = choose_spans(text, fraction, Random(seed), operator)
        assert sum(len(unit_texts(text[span.start : span.end])) for span in spans) == hidden


@given(TEXTS, st.floats(0.01, 0.99), st.integers(0, 99), st.sampled_from(["span", "spans"]))
def test_whole_units_are_hidden_and_exactly_so_many(text, fraction, seed, operator):
    all_units = list(units(text))
    spans = choose_spans(text, fraction, Random(seed), operator) if all_units else ()
    hidden = [unit for unit in all_units for span in spans if span.start <= unit.start and unit.end <= span.end]
    assert len(hidden) == (max(1, round(fraction * len(all_units))) if all_units else 0)
    assert {span.start for span in spans} <= {unit.start for unit in hidden}
    assert {span.end for span in spans} <= {unit.end for unit in hidden}


def test_a_span_of_chinese_is_counted_in_characters():
    text = "今天下了一场很大的雨"
    chosen = {choose_spans(text, 0.2, Random(seed)) for seed in range(200)}
    assert chosen == {(Span(i, i + 2),) for i in range(9)}


def test_a_long_url_is_hidden_whole_or_not_at_all():
    text = f"see {URL} for the other parts"
    seen = {hide(text, choose_spans(text, 0.2, Random(seed))) for seed in range(100)}
    assert {masked.count("*") for masked in seen} == {len(word) for word in text.split()}


@given(TEXTS, st.floats(0.01, 0.99), st.integers(0, 99), st.sampled_from(["span", "spans", "sentences"]))
def test_asterisks_keep_the_length_the_line_breaks_and_all_that_is_not_hidden(text, fraction, seed, operator):
    if not unit_texts(text):
        return
    spans = choose_spans(text, fraction, Random(seed), operator)
    masked = hide(text, spans, operator)
    within = {i for span in spans for i in range(*span)}
    assert len(masked) == len(text)
    assert [len(line) for line in masked.splitlines()] == [len(line) for line in text.splitlines()]
    for i, (before, after) in enumerate(zip(text, masked, strict=True)):
        assert after == (before if i not in within or before in "\n\r\u2028" else "*")


@pytest.mark.parametrize(
    ("operator", "masked"),
    [
        ("span", "one *********\r\n**** five"),
        ("spans", "one *********\r\n**** five"),
        ("sentences", "one *********\r\n**** five"),
        ("removal", "one  five"),
        ("marker", f"one {MARKER} five"),
        ("none", "one *********\r\n**** five"),
    ],
)
def test_each_operator_hides_a_span_in_its_way(operator, masked):
    text = "one two three\r\nfour five"
    assert hide(text, (Span(4, text.index(" five")),), operator) == masked


def test_no_operator_is_left_out_of_these_tests():
    assert set(OPERATORS) == {"span", "spans", "sentences", "removal", "marker", "none"}


def test_the_operator_none_hides_nothing():
    assert choose_spans(TEN_WORDS, 0.4, Random(0), "none") == ()
    assert hide(TEN_WORDS, (), "none") == TEN_WORDS


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Pi is 3.14 or so. Is it? Yes!", {"Pi is 3.14 or so.", "Is it?", "Yes!"}),
        ('He said "Stop." Then he left.', {'He said "Stop."', "Then he left."}),
        ("雨が降る。「行こう。」彼は言った", {"雨が降る。", "「行こう。」", "彼は言った"}),
        ("First line.\nsecond without an end", {"First line.", "second without an end"}),
    ],
)
def test_sentences_are_hidden_whole_and_decimals_do_not_end_one(text, sentences):
    chosen = [choose_spans(text, 0.01, Random(seed), "sentences") for seed in range(100)]
    assert {text[span.start : span.end] for spans in chosen for span in spans} == sentences
    assert {len(spans) for spans in chosen} == {1}


def test_sentences_are_hidden_until_the_share_is_reached():
    text = "a b. c d. e f. g h. i j."
    for seed in range(50):
        spans = choose_spans(text, 0.5, Random(seed), "sentences")
        assert len(spans) == 3  # 5 of 10 units take three sentences of two
        assert list(spans) == sorted(spans)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_a_text_cut_shorter_than_its_spans_is_hidden_up_to_its_end(operator):
    text = "one two three four five"
    spans = (Span(4, 13), Span(19, 23))  # two three, five
    rendered = OPERATORS[operator].render
    assert hide(shorten(text, 2), spans, operator) == "one " + rendered("two")
    assert hide(shorten(text, 1), spans, operator) == "one"
    assert hide("", spans, operator) == ""


def test_every_cut_of_a_text_is_hidden_as_that_much_of_the_whole():
    text = "one two three four five"
    spans = (Span(4, 13), Span(19, 23))
    for end in range(len(text) + 1):
        assert hide(text[:end], spans) == hide(text, spans)[:end]


def test_an_unknown_operator_is_refused_with_the_choices():
    for call in (
        lambda: choose_spans(TEN_WORDS, 0.2, Random(0), "blur"),
        lambda: hide(TEN_WORDS, (), "blur"),
        lambda: Rules(operator="blur"),
    ):
        with pytest.raises(ValueError, match=r"no masking operator named 'blur'; choose one of .*'removal'.*'spans'"):
            call()


def chi_square(counts, cells):
    """Pearson's statistic against equal shares for every cell."""
    expected = sum(counts.values()) / len(cells)
    assert set(counts) <= set(cells)
    return sum((counts[cell] - expected) ** 2 / expected for cell in cells)


# Critical values of the chi-square distribution at p = 0.001 by degrees of freedom (standard tables).
CRITICAL = {4: 18.467, 8: 26.124, 32: 62.487, 55: 93.168}


def test_the_spys_seat_and_the_hidden_place_are_uniform_and_independent():
    document = Document("d", TEN_WORDS)
    games = [deal(document, "summarization", Rules(), f"chi-{i}") for i in range(10_000)]
    starts = [unit.start for unit in units(TEN_WORDS)][:9]  # two of ten words have nine places
    seats = games[0].players
    by_seat = Counter(game.spy for game in games)
    by_start = Counter(game.hidden[0].start for game in games)
    joint = Counter((game.spy, game.hidden[0].start) for game in games)
    assert chi_square(by_seat, seats) < CRITICAL[4]
    assert chi_square(by_start, starts) < CRITICAL[8]
    expected = {(seat, start): by_seat[seat] * by_start[start] / len(games) for seat in seats for start in starts}
    assert sum((joint[cell] - mean) ** 2 / mean for cell, mean in expected.items()) < CRITICAL[32]


def test_several_spans_are_uniform_over_all_places_without_overlap():
    text = "a b c d e f g h"  # three of eight words: 56 ways
    counts = Counter(choose_spans(text, 0.375, Random(f"spans-{i}"), "spans") for i in range(10_000))
    assert len(counts) == 56
    assert chi_square(counts, list(counts)) < CRITICAL[55]
