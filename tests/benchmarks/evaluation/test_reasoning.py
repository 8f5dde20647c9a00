"""The reasoning suite through the real harness, against an endpoint in this process."""

from __future__ import annotations

import importlib
import json
import re
import sys

import pytest

from benchmarks.evaluation import grading, reasoning
from benchmarks.evaluation.contestants import Contestant, EstimatedReader, Loading, contestant
from benchmarks.evaluation.flags import Run
from benchmarks.evaluation.generations import UnreachableError
from tests.chat_server import Answer, says
from trainers.engines.endpoint import EndpointEngine

pytest.importorskip("lm_eval", reason="the suite runs through lm-evaluation-harness, of the eval extra")
pytest.importorskip("math_verify", reason="grading is by math-verify, of the eval extra")

GPQA = {
    "Record ID": "rec1",
    "Question": "Which of these is a colour?",
    "Correct Answer": "green",
    "Incorrect Answer 1": "loud",
    "Incorrect Answer 2": "heavy",
    "Incorrect Answer 3": "quick",
}
ROWS = {
    "gsm8k": [
        {"question": "Two and two?", "answer": "They are 2+2=<<2+2=4>>4.\n#### 4"},
        {"question": "A thousand and a half thousand?", "answer": "#### 1,500"},
    ],
    "math500": [{"problem": "Half of x?", "answer": r"\frac{x}{2}", "unique_id": "m1"}],
    "aime24": [
        {"id": 60, "problem": "One?", "solution": r"It is $\boxed{001}$."},
        {"id": 61, "problem": "Two?", "solution": r"It is $\boxed{002}$."},
    ],
    "minerva_math": [{"question": "Speed of light in m/s?", "answer": "3e8"}],
    "mmlu_pro": [{"question_id": 7, "question": "Which is even?", "options": ["1", "2", "3"], "answer": "B"}],
    "gpqa": [GPQA],
}


def folder_of(tmp_path, **rows):
    for name, lines in rows.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return tmp_path


def endpoint(server, role="model", max_len=None):
    return Contestant(
        role, "m", f"{role}#m", EstimatedReader(), max_len, lambda: EndpointEngine(server.url, "m", retries=0)
    )


def solver(prompt, asked):
    """Right on everything; of AIME's second problem every other time."""
    if "Two?" in prompt:
        return says(rf"\boxed{{{2 if asked % 2 else 3}}}")
    if "colour" in prompt:
        return says(rf"<think>\boxed{{Z}}</think>\boxed{{{re.search(r'([A-D])[.] green', prompt)[1]}}}")
    answers = {
        "Two and": "4",
        "thousand": r"1{,}500",
        "Half": r"\dfrac x2",
        "One?": "1",
        "light": r"2.998\times10^8",
        "even": "B",
    }
    return says(f"So \\boxed{{{next(said for asks, said in answers.items() if asks in prompt)}}}.")


def evaluated(run, *contestants):
    found = reasoning.items(run)
    return reasoning.score(run, found, {who.role: reasoning.generate(run, found, who) for who in contestants}, None)


def test_every_set_is_answered_through_the_harness_and_graded(serve, tmp_path):
    run = Run(tmp_path / "out", data=folder_of(tmp_path, **ROWS), samples=4, say=lambda said: None)
    server = serve(solver)
    results = evaluated(run, endpoint(server))
    assert {score.set: (score.value, score.n) for score in results.scores} == {
        "gsm8k": (1, 2),
        "math500": (1, 1),
        "aime24": (0.75, 2),
        "minerva_math": (1, 1),
        "mmlu_pro": (1, 1),
        "gpqa": (1, 1),
    }
    assert {score.metric for score in results.scores} == {"accuracy"}
    assert results.protocol["samples of each AIME problem"] == 4
    assert not [note for note in results.notes if "itself reports" in note]  # the harness' own means are ours
    of_aime = [sent for sent in server.received if "Two?" in sent["messages"][0]["content"]]
    assert [(sent["temperature"], sent["top_p"], sent["max_tokens"]) for sent in of_aime] == [(0.6, 0.95, 4096)] * 4
    lines = [json.loads(line) for line in (run.output / "reasoning/outcomes.jsonl").read_text().splitlines()]
    assert sorted(line["said"] for line in lines if line["item"] == "61") == ["2", "2", "3", "3"]
    assert {line["sample"] for line in lines if line["item"] == "61"} == {0, 1, 2, 3}


def test_a_second_run_asks_only_for_what_failed(serve, tmp_path):
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gsm8k=ROWS["gsm8k"]), say=lambda said: None)
    down = [True]
    server = serve(
        lambda prompt, asked: Answer(b"{}", 400) if down[0] and "thousand" in prompt else solver(prompt, asked)
    )
    (score,) = evaluated(run, endpoint(server)).scores
    assert (score.value, score.n, score.counts) == (1, 1, {"failed": 1, "problems without an answer": 1})
    assert (asked := len(server.received)) == 2
    down[0] = False
    (score,) = evaluated(run, endpoint(server)).scores
    assert (score.value, score.n, score.counts) == (1, 2, {})
    assert len(server.received) == asked + 1
    assert evaluated(run, endpoint(server)).scores == [score]
    assert len(server.received) == asked + 1


def test_what_is_no_answer_is_wrong_and_counted(serve, tmp_path):
    rows = [{"question": f"{asks}?", "answer": "#### 4"} for asks in ("prose", "empty", "cut", "four")]
    said = {
        "prose": says("It is 4, surely."),
        "empty": says(""),
        "cut": says("It is \\boxed{4", "length"),
        "four": says("\\boxed{4}"),
    }
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gsm8k=rows), say=lambda said: None)
    server = serve(lambda prompt, asked: said[prompt.split("?")[0]])
    (score,) = evaluated(run, endpoint(server)).scores
    assert (score.value, score.n) == (0.25, 4)
    assert score.counts == {"no answer": 3, "empty": 1, "truncated": 1}


def test_a_problem_that_leaves_no_room_to_answer_is_left_out_and_counted(serve, tmp_path):
    rows = [*ROWS["gsm8k"], {"question": "word " * 100_000, "answer": "#### 4"}]
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gsm8k=rows), say=lambda said: None)
    server = serve(solver)
    results = evaluated(run, endpoint(server, max_len=2048))
    assert (results.scores[0].value, results.scores[0].n) == (1, 2)
    assert results.scores[0].counts == {"prompt too long": 1, "problems without an answer": 1, "shortened": 2}
    assert len(server.received) == 2
    assert "lm-evaluation-harness itself reports 66.7 %" in results.notes[-1]


def test_a_model_is_compared_with_its_base_problem_by_problem(serve, tmp_path):
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gsm8k=ROWS["gsm8k"]), say=lambda said: None)
    half = serve(lambda prompt, asked: says("no idea") if "thousand" in prompt else solver(prompt, asked))
    results = evaluated(run, endpoint(serve(solver)), endpoint(half, "base"))
    assert [(score.who, score.value) for score in results.scores] == [
        ("model", 1),
        ("base", 0.5),
        ("model against base", 0.5),
    ]
    assert results.scores[-1].metric == "difference of accuracy"


def test_models_that_do_alike_everywhere_have_no_interval_of_their_difference(serve, tmp_path):
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gsm8k=ROWS["gsm8k"]), say=lambda said: None)
    difference = evaluated(run, endpoint(serve(solver)), endpoint(serve(solver), "base")).scores[-1]
    assert (difference.value, difference.low, difference.high, difference.n) == (0, None, None, 2)


def test_equally_good_models_differ_by_nothing_and_no_interval_says_that_one_is_better(serve, tmp_path):
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gsm8k=ROWS["gsm8k"]), say=lambda said: None)
    results = evaluated(run, endpoint(serve(solver)), endpoint(serve(solver), "base"))
    assert (results.scores[-1].value, results.scores[-1].low, results.scores[-1].high) == (0, None, None)


def test_an_endpoint_that_is_down_ends_the_run_and_what_it_answered_is_kept(serve, tmp_path):
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gsm8k=ROWS["gsm8k"]), say=lambda said: None)
    with pytest.raises(UnreachableError, match="run the same command again"):
        evaluated(run, endpoint(serve(lambda prompt, asked: Answer(b"down", 503))))
    assert evaluated(run, endpoint(serve(solver))).scores[0].value == 1


def test_a_package_that_grading_needs_is_missed_before_anything_is_asked(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "find_spec", lambda name: None)
    run, server = Run(tmp_path / "out", data=folder_of(tmp_path, math500=ROWS["math500"]), say=str), serve(solver)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[eval\]'"):
        reasoning.generate(run, reasoning.items(run), endpoint(server))
    assert server.received == []


def test_without_the_harness_data_is_read_and_only_generating_is_an_error_that_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    for name in ("harness", "reasoning"):
        monkeypatch.delitem(sys.modules, f"benchmarks.evaluation.{name}", raising=False)
    suite = importlib.import_module("benchmarks.evaluation.reasoning")
    run = Run(tmp_path / "out", data=folder_of(tmp_path, math500=ROWS["math500"]), say=str)
    with pytest.raises(ValueError, match=r"needs the eval extra .*pip install -e '\.\[eval\]'"):
        suite.generate(run, suite.items(run), Contestant("model", "m", "m", EstimatedReader(), None, lambda: None))


def test_gpqas_options_stand_in_an_order_of_the_items_own(tmp_path):
    rows = [{**GPQA, "Record ID": f"rec{i}"} for i in range(40)]
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gpqa=rows))
    golds = [problem.gold for problem in reasoning.items(run)["gpqa"].rows]
    assert golds == [problem.gold for problem in reasoning.items(run)["gpqa"].rows]
    assert set(golds) == set("ABCD")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"gsm8k": [{"text": "Two?", "answer": "4"}]}, "needs 'question', in a column 'question' or 'problem'"),
        ({"gpqa": [{**GPQA} | {"Correct Answer": None}]}, "none that can be evaluated"),
        (
            {"gsm8k": [{"question": "Two?", "answer": "four"}]},
            "rows of GSM8K can be graded ({'unreadable gold answer': 1}); the first has 'four'",
        ),
        (
            {"gpqa": [{**GPQA, "Incorrect Answer 1": "green"}]},
            "gpqa.jsonl: none of 1 rows of GPQA-Diamond can be graded ({'right answer among the wrong ones': 1})",
        ),
        ({"mmlu_pro": [{"question": "?", "options": ["1", "2"], "answer": "C"}]}, "readable gold answer"),
        ({"mmlu_pro": [{"question": "?", "options": "1, 2", "answer": "A"}]}, "give a list of 2 to 16 texts"),
        ({}, "has no data set to evaluate"),
    ],
)
def test_bad_data_is_an_error_that_says_what_is_missing(tmp_path, rows, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        reasoning.items(Run(tmp_path / "out", data=folder_of(tmp_path, **rows), say=lambda said: None))


def test_items_without_a_gold_answer_are_left_out_and_said(tmp_path):
    heard = []
    rows = [*ROWS["gsm8k"], {"question": "Why?", "answer": ""}, {"question": "Who?", "answer": "#### nobody"}]
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gsm8k=rows), say=heard.append)
    assert len(reasoning.items(run)["gsm8k"].rows) == 2
    assert [said for said in heard if "gsm8k" in said] == [
        "reasoning: 1 of 4 items of gsm8k are left out: no answer",
        "reasoning: 1 of 4 items of gsm8k are left out: unreadable gold answer",
    ]


def test_an_item_of_gpqa_with_its_right_answer_twice_is_left_out_and_said(tmp_path):
    heard = []
    rows = [GPQA, {**GPQA, "Record ID": "rec2", "Incorrect Answer 2": " green\n"}]
    run = Run(tmp_path / "out", data=folder_of(tmp_path, gpqa=rows), say=heard.append)
    assert [problem.id for problem in reasoning.items(run)["gpqa"].rows] == ["rec1"]
    assert [said for said in heard if "items of gpqa" in said] == [
        "reasoning: 1 of 2 items of gpqa are left out: right answer among the wrong ones"
    ]


def test_the_texts_that_would_be_asked_for_are_counted(tmp_path):
    run = Run(tmp_path / "out", data=folder_of(tmp_path, **ROWS), samples=4, say=lambda said: None)
    assert reasoning.calls(run, reasoning.items(run), True, True) == (2 + 1 + 2 * 4 + 1 + 1 + 1, 0)


@pytest.mark.slow
def test_the_small_model_answers_one_problem_of_each_set(tmp_path):
    run = Run(tmp_path / "out", data=folder_of(tmp_path, **ROWS), samples=2, limit=1, say=lambda said: None)
    who = contestant("model", "smollm2-135m", Loading())
    who.max_new_tokens = 24
    results = evaluated(run, who)
    assert [score.n for score in results.scores] == [1] * 6
    kept = [json.loads(line) for line in (run.output / "reasoning/generations.jsonl").read_text().splitlines()]
    assert len(kept) == 7
    assert len({row["text"] for row in kept if row["set"] == "aime24"}) == 2
    assert all(row["text"] for row in kept)
