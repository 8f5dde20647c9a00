"""Grading by algebra in a process of its own: equal mathematics, hostile answers, and a worker that dies."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.evaluation import grading
from benchmarks.evaluation.answers import bare, spelled
from benchmarks.evaluation.grading import Grader
from tests.benchmarks.evaluation.answer_tables import ALGEBRA_RIGHT, ALGEBRA_WRONG, each
from tests.benchmarks.evaluation.shared_data import shared_data

pytest.importorskip("math_verify", reason="grading is by math-verify, of the eval extra")

TOWER = "9^{9^{9^{9}}}"


@pytest.fixture(scope="module")
def grader():
    with Grader() as one:
        yield one


def of_each(step):
    """Every so many of the pairs that take algebra, with whether they are right."""
    return [(*pair, table is ALGEBRA_RIGHT) for table in (ALGEBRA_RIGHT, ALGEBRA_WRONG) for pair in each(table)[::step]]


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_equal_mathematics_is_right_and_other_is_wrong(grader, step):
    graded = [(*pair, *grader.same(*pair)) for *pair, _ in of_each(step)]
    assert graded == [(*pair, right, "") for *pair, right in of_each(step)]


def test_a_reply_is_graded_by_its_last_box_and_says_why_it_is_wrong(grader):
    assert grader.grade("number", r"\boxed{17} no, \boxed{18}", "18") == ("18", True, "")
    assert grader.grade("number", "It is 18.", "18") == (None, False, "no answer")
    assert grader.grade("math", r"\boxed{" + "1+" * 2000 + "1}", "18")[1:] == (False, "answer too long")


def test_what_spelling_settles_starts_no_process():
    with Grader() as idle:
        assert idle.grade("number", r"\boxed{18.0}", "18").right
        assert idle.starts == 0


def test_an_answer_that_takes_too_long_is_wrong_and_the_next_is_graded():
    with Grader(seconds=1.0) as short:
        assert short.same("math", "x+x", "2x") == (True, "")
        begin = time.monotonic()
        assert short.same("math", TOWER, r"\frac{1}{2}") == (False, "grader timed out")
        assert time.monotonic() - begin < 5
        short.seconds = 10.0
        assert short.same("math", "y+y", "2y") == (True, "")
        assert short.starts == 2


def test_a_worker_that_dies_is_started_again_and_asked_once_more(grader):
    grader.same("math", "a+a", "2a")
    os.kill(grader._worker.pid, signal.SIGKILL)
    assert grader.same("math", "b+b", "2b") == (True, "")


@pytest.mark.slow
def test_an_answer_on_which_every_worker_dies_is_wrong_and_says_so(monkeypatch):
    dies = "import os; from benchmarks.evaluation import algebra; algebra.same = lambda k, said, g: said != 'a+a' or os._exit(1)"
    monkeypatch.setattr(grading, "_WORKER", grading._WORKER.replace("from benchmarks", f"{dies}; from benchmarks"))
    with Grader() as one:
        assert one.same("math", "a+a", "2a") == (False, "grader died")
        assert one.starts == 2


def test_a_missing_package_is_an_error_that_names_the_extra(monkeypatch):
    monkeypatch.setattr(grading, "find_spec", lambda name: None)
    with Grader() as one, pytest.raises(ValueError, match=r"pip install -e '\.\[eval\]'"):
        one.same("math", "a+a", "2a")


HOSTILE = [
    TOWER,
    "9^9^9^9",
    "{" * 100_000 + "}" * 100_000,
    "(" * 900 + "1" + ")" * 900,
    r"\sqrt{" * 300 + "2" + "}" * 300,
    r"\frac{1}{" * 20 + "x" + "}" * 20,
    "(x+1)^{1000000}",
    r"\sum_{n=1}^{\infty} \frac{\sin(n^2)}{n^{\pi}}",
    r"\int_0^\infty \frac{\sin(x^x)}{x^{x+1}} dx",
    r"\prod_{k=1}^{10000000} k",
    "99999999999999999!",
    "10^{10^{10}}",
    "1e999999999",
    r"\frac{1}{0}",
    "x^{x^{x^{x^{x}}}} = 2",
    "1" * 1999,
    "1," * 900 + "1",
    r"\pm 1," * 200,
    "a" * 1999,
    "\0\ud800é",
    "__import__('os').system('false')",
]


@pytest.fixture(scope="module")
def impatient():
    with Grader(seconds=2) as one:
        yield one


@pytest.mark.slow
@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_answer_is_wrong_within_the_deadline(impatient, answer):
    for kind, gold in (("number", "18"), ("math", "x^2+1")):
        impatient.same("math", "x+x", "2x")
        impatient._grades.clear()
        begin = time.monotonic()
        assert not impatient.grade(kind, rf"\boxed{{{answer}}}", gold).right
        assert time.monotonic() - begin < 2 + 1
    assert impatient.same("math", "y+y", "2y") == (True, "")


@pytest.mark.slow
def test_several_graders_at_once_give_what_one_gives():
    pairs = [*each(ALGEBRA_RIGHT), *each(ALGEBRA_WRONG)]

    def graded(seed):
        shuffled = random.Random(seed).sample(pairs, len(pairs))
        with Grader() as one:
            return {pair: one.same(*pair)[0] for pair in shuffled}

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(graded, range(3)))
    assert found == [{pair: pair in each(ALGEBRA_RIGHT) for pair in pairs}] * 3


GOLD = {
    "eval_gsm8k_test.jsonl": "number",
    "eval_aime24.jsonl": "number",
    "eval_aime25.jsonl": "number",
    "eval_math500.jsonl": "math",
    "eval_minerva_math.jsonl": "measured",
    "eval_mmlu_pro_sample.jsonl": "choice",
}


@pytest.mark.slow
@pytest.mark.parametrize(("file", "kind"), GOLD.items())
def test_every_gold_answer_is_right_and_another_items_is_not(grader, file, kind):
    with shared_data(file).open(encoding="utf-8") as lines:
        golds = [json.loads(line)["answer"] for line in lines]
    assert [gold for gold in golds if not grader.grade(kind, rf"\boxed{{{gold}}}", gold).right] == []
    rng, spellings = random.Random(0), {gold: bare(spelled(gold)) for gold in golds}
    others = [(rng.choice([other for other in golds if spellings[other] != spellings[gold]]), gold) for gold in golds]
    taken = [pair for pair in others if grader.grade(kind, rf"\boxed{{{pair[0]}}}", pair[1]).right]
    assert len(taken) <= 0.01 * len(others), taken
