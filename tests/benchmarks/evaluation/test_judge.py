"""The judge behind a real server: each question once, trouble of every kind, and a cap on cost."""

from __future__ import annotations

import json

import pytest

from benchmarks.evaluation.generations import FAILURES_IN_A_ROW, UnreachableError
from benchmarks.evaluation.judge import CostCapError, JudgeSettings
from tests.benchmarks.evaluation.scripted_judges import bills, judge_at
from tests.chat_server import Answer, says
from trainers.engines import Sampling

AT_ONCE = {"retry-after-ms": "1"}
PROMPTS = [f"question {i}" for i in range(30)]


def lines(output):
    return [json.loads(line) for line in (output / "verdicts.jsonl").read_text().splitlines()]


def test_answers_come_in_order_and_no_question_is_asked_twice(serve, tmp_path):
    server = serve(lambda prompt, _: says(f"to {prompt}"))
    wanted = [f"to {prompt}" for prompt in [*PROMPTS, PROMPTS[3]]]
    for _ in range(2):
        answers = judge_at(server, tmp_path).ask([*PROMPTS, PROMPTS[3]], "questions")
        assert [answer.text for answer in answers] == wanted
    assert set(server.prompts.values()) == {1}
    assert len(lines(tmp_path)) == len(PROMPTS)


def test_another_judge_or_another_decoding_is_another_question(serve, tmp_path):
    server = serve(lambda *_: says("yes"))
    judge_at(server, tmp_path).ask(["q"], "one")
    judge_at(server, tmp_path).ask(["q"], "two", Sampling(5, 1.0))
    judge_at(server, tmp_path, max_new_tokens=7).ask(["q"], "three")
    judge_at(server, tmp_path, model="another").ask(["q"], "four")
    assert server.prompts == {"q": 4}
    assert [row["temperature"] for row in server.received] == [0, 1.0, 0, 0]


def test_the_key_is_the_judge_s_own_or_else_openai_s(serve, tmp_path, monkeypatch):
    seen = []
    server = serve(lambda *_: says("yes"))
    monkeypatch.setenv("OPENAI_API_KEY", "general")
    seen.append(judge_at(server, tmp_path)._engine._client.api_key)
    monkeypatch.setenv("JUDGE_API_KEY", "own")
    seen.append(judge_at(server, tmp_path)._engine._client.api_key)
    assert seen == ["general", "own"]


TROUBLE = {
    "too many requests": Answer(b"{}", 429, AT_ONCE),
    "too many requests, for a second": Answer(b"{}", 429, {"retry-after": "0.2"}),
    "a server error": Answer(b"{}", 500, AT_ONCE),
    "an overloaded server": Answer(b"{}", 503, AT_ONCE),
    "a cut connection": says("a verdict")._replace(cut=True),
    "an answer that comes too late": says("a verdict")._replace(after=3.0),
}


def test_passing_trouble_of_every_kind_costs_no_verdict(serve, tmp_path):
    server = serve(lambda prompt, times: TROUBLE[prompt] if not times else says(f"after {prompt}"))
    answers = judge_at(server, tmp_path, timeout=1.0, retries=2).ask(list(TROUBLE), "questions")
    assert [answer.text for answer in answers] == [f"after {trouble}" for trouble in TROUBLE]


NO_ANSWERS = {
    "no JSON": Answer(b"<html>"),
    "half of it": Answer(b'{"choices": ['),
    "other JSON": Answer(b'["yes"]'),
    "no text": says(None),
    "a prompt too long": Answer(b'{"error": {"message": "too long"}}', 400),
}


def test_one_question_without_an_answer_fails_alone_and_is_asked_again_by_a_later_run(serve, tmp_path):
    server = serve(lambda prompt, _: NO_ANSWERS.get(prompt, says("yes")))
    mixed = [prompt for trouble in NO_ANSWERS for prompt in (trouble, f"fine beside {trouble}")]
    for times in (1, 2):
        answers = judge_at(server, tmp_path, retries=0, concurrency=1).ask(mixed, "questions")
        assert [bool(answer.failed) for answer in answers] == [True, False] * len(NO_ANSWERS)
        assert {server.prompts[trouble] for trouble in NO_ANSWERS} == {times}
    assert len(lines(tmp_path)) == len(NO_ANSWERS)


@pytest.mark.parametrize("trouble", NO_ANSWERS)
def test_one_question_that_never_has_an_answer_stops_no_later_run(serve, tmp_path, trouble):
    server = serve(lambda prompt, _: NO_ANSWERS.get(prompt, says("yes")))
    for _ in range(2):
        answers = judge_at(server, tmp_path, retries=0).ask([trouble, "fine", "fine, too"], "questions")
        assert [bool(answer.failed) for answer in answers] == [True, False, False]
    assert server.prompts == {trouble: 2, "fine": 1, "fine, too": 1}


def test_many_questions_that_are_always_refused_stop_no_later_run(serve, tmp_path):
    server = serve(lambda prompt, _: Answer(b"{}", 400) if prompt.startswith("long") else says("yes"))
    for _ in range(2):
        many = ["short", *(f"long {i}" for i in range(FAILURES_IN_A_ROW + 5))]
        answers = judge_at(server, tmp_path, retries=0, concurrency=1).ask(many, "questions")
        assert sum(bool(answer.failed) for answer in answers) == FAILURES_IN_A_ROW + 5


def test_a_judge_that_dies_in_the_middle_and_comes_back_is_asked_nothing_twice(serve, tmp_path):
    alive = [True]
    server = serve(lambda *_: says("yes") if alive[0] and len(server.received) <= 12 else Answer(b"{}", 401))
    many = [f"question {i}" for i in range(60)]
    with pytest.raises(UnreachableError, match="run the same command again"):
        judge_at(server, tmp_path, concurrency=2).ask(many, "questions")
    kept = {row["key"] for row in lines(tmp_path)}
    assert len(kept) == 12
    assert len(server.received) < 40  # it isn't asked for everything
    server.answer, before = lambda *_: says("yes"), len(server.received)
    answers = judge_at(server, tmp_path).ask(many, "questions")
    assert [answer.text for answer in answers] == ["yes"] * 60
    assert len(server.received) - before == 60 - 12


def test_a_reply_that_no_file_can_hold_as_it_is_is_kept(serve, tmp_path):
    server = serve(lambda *_: says("half \ud800 a character\u2028\x1c"))
    for _ in range(2):
        (answer,) = judge_at(server, tmp_path).ask(["q"], "questions")
        assert answer.text == "half \ud800 a character\u2028\x1c"
    assert len(server.received) == 1


def test_the_estimate_is_shown_before_anything_is_asked(serve, tmp_path):
    told = []
    server = serve(lambda *_: bills("yes", 1000, 100))
    judge = judge_at(server, tmp_path, lambda line: told.append((line, len(server.received))), price=(2.0, 10.0))
    judge.ask(["x" * 300] * 2 + ["y" * 300], "questions")
    ((line, asked),) = told
    assert asked == 0
    assert "2 questions" in line
    assert "200 tokens in and 600 out" in line  # 3 bytes a token, 300 tokens a reply
    assert "$0.0064" in line
    assert judge.bill.spent == pytest.approx(2 * (1000 * 2 + 100 * 10) / 1e6)


def test_estimates_learn_from_what_the_endpoint_billed(serve, tmp_path):
    told = []
    server = serve(lambda *_: bills("yes", 50, 20))
    judge = judge_at(server, tmp_path, told.append, price=(2.0, 10.0))
    judge.ask([f"{i:0100}" for i in range(10)], "first")
    judge_at(server, tmp_path, told.append, price=(2.0, 10.0)).ask([f"{i:0200}" for i in range(10)], "second")
    assert "1,000 tokens in and 200 out" in told[-1]


def test_an_estimate_above_the_cap_stops_before_anything_is_spent(serve, tmp_path):
    server = serve(lambda *_: says("yes"))
    judge = judge_at(server, tmp_path, price=(2.0, 10.0), max_cost=0.01)
    with pytest.raises(CostCapError, match=r"\$0\.092.*\$0\.01 .*None was asked; raise --judge_max_cost"):
        judge.ask([f"{prompt:300}" for prompt in PROMPTS[:10]] + PROMPTS[10:], "questions")
    assert not server.received


def test_a_cap_that_is_reached_in_the_middle_keeps_every_answer_and_a_higher_one_goes_on(serve, tmp_path):
    # Each answer costs a dollar, the guess is 0.3 and the most that a reply may cost is a dollar and a little.
    server = serve(lambda *_: bills("yes", 0, 100_000))
    settings = {"price": (0.0, 10.0), "max_new_tokens": 100_000}
    with pytest.raises(CostCapError, match="run the same command again with a higher --judge_max_cost"):
        judge_at(server, tmp_path, max_cost=8.5, **settings).ask(PROMPTS, "questions")
    assert len(server.received) == len(lines(tmp_path)) == 8
    with pytest.raises(
        CostCapError, match="None was asked"
    ):  # what was spent counts, and what an answer takes is known
        judge_at(server, tmp_path, max_cost=9.0, **settings).ask(PROMPTS, "questions")
    assert len(judge_at(server, tmp_path, max_cost=30.5, **settings).ask(PROMPTS, "questions")) == 30
    assert set(server.prompts.values()) == {1}
    assert len(server.received) == 30


@pytest.mark.parametrize("concurrency", [1, 16])
def test_no_concurrency_passes_the_cap(serve, tmp_path, concurrency):
    server = serve(lambda *_: bills("yes", 0, 60_000)._replace(after=0.01))
    judge = judge_at(server, tmp_path, price=(0.0, 10.0), max_new_tokens=100_000, max_cost=4.0, concurrency=concurrency)
    with pytest.raises(CostCapError, match="Every answer is kept"):
        judge.ask(PROMPTS, "questions")
    assert 3.0 < judge.bill.spent <= 4.0


def test_costs_are_guessed_where_the_endpoint_tells_no_tokens_and_that_is_said(serve, tmp_path):
    told = []
    server = serve(lambda prompt, _: bills("y" * 3000, 0, 0) if prompt == "r" else says("y" * 3000))
    for prompt in ("q" * 3000, "r"):
        judge = judge_at(server, tmp_path, told.append, price=(2.0, 10.0), max_cost=1.0)
        judge.ask([prompt], "questions")
    assert "guessed from bytes for 1 answers" in told[-1]
    assert judge.bill.spent == pytest.approx(0.002 + 0.01 + 2e-6 + 0.01)
    assert judge.about()["answers_with_guessed_tokens"] == 2


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_cost": 5.0}, r"\$5\.00 needs the judge's price: give --judge_price"),
        ({"max_cost": 0.0, "price": (1.0, 1.0)}, "above 0"),
        ({"price": (-1.0, 1.0)}, "-1.0"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"timeout": 0.0}, "timeout 0.0"),
        ({"retries": -1}, "retries -1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        JudgeSettings("http://localhost/v1", "m", **settings)
