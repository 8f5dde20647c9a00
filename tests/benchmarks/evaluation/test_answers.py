"""Final answers as text: where they stand, how they are spelled, and which numbers they are."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest

from benchmarks.evaluation.answers import final_answer, number, parts, settled, spelled
from tests.benchmarks.evaluation.answer_tables import ALGEBRA_RIGHT, SPELLED_RIGHT, SPELLED_WRONG, each


@pytest.mark.parametrize(("kind", "said", "gold"), each(SPELLED_RIGHT))
def test_other_spellings_of_the_gold_answer_are_right_without_algebra(kind, said, gold):
    assert settled(kind, said, gold) is True


@pytest.mark.parametrize(("kind", "said", "gold"), each(SPELLED_WRONG))
def test_other_numbers_words_and_letters_are_wrong_without_algebra(kind, said, gold):
    assert settled(kind, said, gold) is False


@pytest.mark.parametrize(("kind", "said", "gold"), each(ALGEBRA_RIGHT))
def test_what_takes_algebra_is_left_open(kind, said, gold):
    assert settled(kind, said, gold) is None


@pytest.mark.parametrize(
    ("kind", "reply", "said"),
    [
        ("number", r"\boxed{1} or rather \boxed{2}", "2"),
        ("number", r"<think>\boxed{1}</think> It is 2.", None),
        ("number", r"\boxed{2} and \boxed{", "2"),
        ("math", r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        ("choice", r"\boxed{C}", "C"),
        ("choice", r"\boxed{\text{(c) the electron}}", "C"),
        ("choice", r"\boxed{$\mathbf{D}$}", "D"),
        ("choice", "The answer is (B). No: the answer is **E**.", "E"),
        ("choice", r"The answer is (B). \boxed{the first}", None),
        ("choice", r"\boxed{Carbon}", None),
        ("choice", r"\boxed{a photon}", None),
        ("choice", r"\boxed{A, B, and C}", None),
        ("choice", r"\boxed{\text{(A) and (B)}}", None),
        ("choice", r"\boxed{A; D}", None),
        ("choice", r"\boxed{C) / (D)}", None),
        ("choice", r"\boxed{A, after all}", "A"),
        ("choice", r"\boxed{A. B}", "A"),
        ("choice", r"\boxed{\textbf{(B)}\ 5}", "B"),
        ("choice", r"\boxed{\text{Option C}}", "C"),
        ("choice", r"\boxed{Option C}", "C"),
        ("choice", r"\boxed{Answer: C}", "C"),
        ("choice", r"\boxed{The correct answer is (C).}", "C"),
        ("choice", r"\boxed{C - foo}", "C"),
        ("choice", r"\boxed{C – a photon}", "C"),
        ("choice", r"\boxed{\text{C: foo}}", "C"),
        ("choice", r"\boxed{Ｃ}", "C"),
        ("choice", r"\boxed{A, B}", None),
        ("choice", r"\boxed{A and B}", None),
        ("choice", r"\boxed{A - B}", None),
        ("choice", r"\boxed{Options A and B}", None),
        ("choice", r"\boxed{Option A or option B}", None),
        ("choice", r"\boxed{Ａ，Ｂ}", None),
        ("choice", r"\boxed{C-foo}", None),
        ("choice", r"\boxed{optional}", None),
        ("choice", "The answer is a photon.", None),
        ("choice", "Now the answer is I think C", None),
        ("choice", "", None),
    ],
)
def test_the_last_box_is_the_answer(kind, reply, said):
    assert final_answer(reply, kind) == said


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", Fraction(2469, 2)),
        (r"-2.5 \times 10^{-3}", Fraction(-1, 400)),
        (r"1\frac{4}{5}", Fraction(9, 5)),
        (r"-\frac{1}{4}", Fraction(-1, 4)),
        ("3 km", Fraction(3)),
        (r"3\ \mathrm{m}\,\mathrm{s}^{-1}", Fraction(3)),
        ("3 pi", None),
        ("18 million", Fraction(18_000_000)),
        (r"\frac{1}{2} million", Fraction(500_000)),
        ("5 plus sqrt", None),
        ("5 xy", None),
        (r"5\operatorname{ln}", None),
        (r"\{18\}", None),
        ("3k", None),
        ("12,34", None),
        ("1e999", None),
        ("1/0", None),
        ("", None),
        (".", None),
    ],
)
def test_numbers_are_read_exactly(text, value):
    assert number(spelled(text)) == value


@pytest.mark.parametrize(
    ("text", "brackets", "found"),
    [
        ("(2, 3]", "(]", ["2", "3"]),
        ("1,-2", "", ["1", "-2"]),
        (r"\{a, f(b,c)\}", "{}", ["a", "f(b,c)"]),
        ("(1,2) + (3,4)", "", ["(1,2) + (3,4)"]),
        ("f(1,2)", "", ["f(1,2)"]),
        ("(a+b)", "", ["(a+b)"]),
    ],
)
def test_lists_are_parted_at_their_own_commas(text, brackets, found):
    assert parts(text) == (brackets, found)


@pytest.mark.parametrize(
    "text",
    ["\\boxed{" * 50_000, "\\boxed{" + "{" * 50_000 + "}" * 50_000 + "}", "the answer is " * 20_000, "\\boxed{" + "the answer " * 50_000 + "}", "\\boxed{the" + " " * 50_000 + "}", "\\boxed{A" + " - " * 50_000 + "}", "\\boxed{" + "1," * 50_000],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["math", "choice"])
def test_a_reply_is_read_in_linear_time(kind, text):
    begin = time.process_time()
    final_answer(text, kind)
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    "piece",
    [
        "\\frac",
        "1,",
        "\\text{m}",
        "x_{",
        "^{\\circ",
        "\\left(",
        " and ",
        "1 e",
        "\\ ",
        "\\pm",
        "-",
        "\0",
        "\\text{",
        "\\text{{a}",
        "5 cm/",
        "=",
        "{",
        "\\approx 1",
    ],
)
def test_an_answer_of_the_longest_length_is_settled_at_once(piece):
    begin = time.process_time()
    settled("measured", (piece * 2000)[:2000], r"\frac{1}{2}")
    assert time.process_time() - begin < 1
