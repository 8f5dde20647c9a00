"""The box that an answer is read from."""

import time

import pytest

from benchmarks.evaluation.answers import last_box

BOXES = {
    r"So it is \boxed{42}.": "42",
    r"\boxed{1} no, \boxed{2}": "2",
    r"\boxed{\frac{\sqrt{\frac{1}{x^{2}}}}{\left(\frac{a_{1}}{b}\right)}}": r"\frac{\sqrt{\frac{1}{x^{2}}}}{\left(\frac{a_{1}}{b}\right)}",
    "\\boxed{" + "{" * 20 + "7" + "}" * 20 + "}": "{" * 20 + "7" + "}" * 20,
    r"\boxed{\{1, 2\}}": r"\{1, 2\}",
    r"\boxed{5} and \boxed{}": "5",
    r"\boxed{5} and \boxed{6": "5",
    r"<think>\boxed{1}</think> \boxed{2}": "2",
    r"<think>\boxed{1}</think> I can't say.": None,
    r"\boxed{1} <think> or \boxed{2}": "1",
    "42": None,
    "": None,
}


@pytest.mark.parametrize("text", BOXES)
def test_the_last_complete_box_that_holds_something_is_read(text):
    assert last_box(text) == BOXES[text]


@pytest.mark.parametrize("piece", [r"\boxed{", "{", r"\boxed{{", r"\boxed{1}{", "}{"])
def test_a_box_is_found_in_linear_time(piece):
    started = time.perf_counter()
    last_box(r"\boxed{" + piece * 100_000 + "}")
    assert time.perf_counter() - started < 2
