"""Everything is asked once, answered in order and kept as it comes; what failed is tried again."""

from __future__ import annotations

import json

import pytest

from benchmarks.evaluation import generations
from benchmarks.evaluation.contestants import Contestant, EstimatedReader
from benchmarks.evaluation.generations import Ask, Finished, UnreachableError, answer_all
from tests.benchmarks.evaluation.summaries import Writer, contestant
from tests.chat_server import Answer, says
from trainers.engines import Failed, Reply, Sampling
from trainers.engines.endpoint import EndpointEngine

TERMS = Sampling(20, 0.7)


def asks(*prompts, sampling=TERMS):
    return [Ask("a set", f"item {i}", prompt, sampling) for i, prompt in enumerate(prompts)]


def kept(tmp_path):
    return Finished(tmp_path / "generations.jsonl")


def test_answers_come_in_the_order_of_the_asks_however_they_were_batched(tmp_path, monkeypatch):
    monkeypatch.setattr(generations, "ROWS_AT_A_TIME", 3)
    writer = Writer(lambda prompt: Reply(prompt.upper(), truncated="b" in prompt))
    prompts = ["ccc", "a", "bbbbb", "aa", "dddd", "b", "e"]
    answers = answer_all(contestant(writer), asks(*prompts), kept(tmp_path), 0, "texts")
    assert [answer.text for answer in answers] == [prompt.upper() for prompt in prompts]
    assert [answer.truncated for answer in answers] == ["b" in prompt for prompt in prompts]
    lengths = [len(request.prompt) for request in writer.asked]
    assert lengths == sorted(lengths)


def test_a_line_says_who_wrote_what_for_which_item(tmp_path):
    answer_all(contestant(Writer(lambda _: Reply("T", usage=(3, 1)))), asks("p"), kept(tmp_path), 0, "texts")
    (row,) = (json.loads(line) for line in (tmp_path / "generations.jsonl").read_text().splitlines())
    row.pop("key")
    assert row == {
        "who": "model",
        "model": "the model",
        "set": "a set",
        "item": "item 0",
        "sample": 0,
        "text": "T",
        "truncated": False,
        "usage": [3, 1],
    }


def test_the_same_prompt_is_written_once_and_each_sample_of_it_on_its_own(tmp_path):
    writer = Writer(lambda prompt: "T")
    twice = asks("p", "p")
    assert len(answer_all(contestant(writer), twice, kept(tmp_path), 0, "texts")) == 2
    assert len(writer.asked) == 1
    samples = [Ask("a set", "i", "p", TERMS, sample) for sample in range(3)]
    answer_all(contestant(writer), samples, kept(tmp_path), 0, "texts")
    assert len(writer.asked) == 3
    assert len({request.seed for request in writer.asked}) == 3


CHANGES = {
    "prompt": (asks("other"), 0, "weights of the model"),
    "sampling": (asks("p", sampling=Sampling(21, 0.7)), 0, "weights of the model"),
    "greedy": (asks("p", sampling=Sampling(20, 0.7, greedy=True)), 0, "weights of the model"),
    "sample": ([Ask("a set", "item 0", "p", TERMS, 1)], 0, "weights of the model"),
    "seed": (asks("p"), 1, "weights of the model"),
    "weights": (asks("p"), 0, "other weights"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_changes_an_answer_asks_for_a_new_one(tmp_path, what):
    writer, changed = Writer(lambda prompt: "T"), CHANGES[what]
    answer_all(contestant(writer), asks("p"), kept(tmp_path), 0, "texts")
    who = contestant(writer)
    who.fingerprint = changed[2]
    answer_all(who, changed[0], kept(tmp_path), changed[1], "texts")
    assert len(writer.asked) == 2
    answer_all(contestant(writer, "base"), asks("p"), kept(tmp_path), 0, "texts")
    assert len(writer.asked) == 3


def test_a_failure_is_an_answer_of_its_own_and_is_not_kept(tmp_path):
    writer = Writer(lambda prompt: Failed("no power") if prompt == "bad" and len(writer.asked) < 2 else "T")
    first = answer_all(contestant(writer), asks("good", "bad"), kept(tmp_path), 0, "texts")
    assert [(answer.text, answer.failed) for answer in first] == [("T", ""), ("", "no power")]
    assert len(kept(tmp_path).rows()) == 1
    again = answer_all(contestant(writer), asks("good", "bad"), kept(tmp_path), 0, "texts")
    assert [answer.text for answer in again] == ["T", "T"]
    assert [request.prompt for request in writer.asked].count("good") == 1


def test_one_text_that_never_comes_stops_no_later_run(tmp_path):
    writer = Writer(lambda prompt: Failed("no power") if prompt == "bad" else "T")
    for _ in range(2):
        answers = answer_all(contestant(writer), asks("good", "bad"), kept(tmp_path), 0, "texts")
        assert [answer.failed for answer in answers] == ["", "no power"]


def test_prompts_that_are_refused_again_leave_a_resumed_run_its_answers(tmp_path, serve):
    refused = Answer(b'{"error": "too long"}', 400)
    server = serve(lambda prompt, _: refused if prompt.startswith("long") else says("yes"))
    prompts = ["short", *(f"long {i}" for i in range(generations.FAILURES_IN_A_ROW + 5))]
    who = Contestant("model", "m", "p", EstimatedReader(), None, lambda: EndpointEngine(server.url, "m", retries=0))
    for _ in range(2):
        answers = answer_all(who, asks(*prompts), kept(tmp_path), 0, "texts")
        assert [bool(answer.failed) for answer in answers] == [False, *[True] * (len(prompts) - 1)]


def test_nothing_is_loaded_where_nothing_is_missing(tmp_path):
    answer_all(contestant(Writer(lambda prompt: "T")), asks("p"), kept(tmp_path), 0, "texts")
    who = contestant(Writer(str))
    who.load = lambda: pytest.fail("loaded for nothing")
    assert answer_all(who, asks("p"), kept(tmp_path), 0, "texts")[0].text == "T"
    assert answer_all(who, [], kept(tmp_path), 0, "texts") == []


def test_an_endpoint_that_dies_leaves_what_it_answered_and_says_how_to_go_on(tmp_path, serve):
    dead = Answer(b"{}", 401)
    server = serve(lambda prompt, times: says(f"echo {prompt}") if int(prompt) < 5 and not times else dead)

    def endpoint():
        return EndpointEngine(server.url, "m", timeout=5, retries=0, concurrency=2)

    who = Contestant("model", server.url, "f", EstimatedReader(), None, endpoint)
    with pytest.raises(UnreachableError, match="run the same command again"):
        answer_all(who, asks(*map(str, range(60))), kept(tmp_path), 0, "texts")
    assert {row["text"] for row in kept(tmp_path).rows()} == {f"echo {i}" for i in range(5)}
    answers = answer_all(who, asks(*map(str, range(5))), kept(tmp_path), 0, "texts")
    assert [answer.text for answer in answers] == [f"echo {i}" for i in range(5)]
    assert all(server.prompts[str(i)] == 1 for i in range(5))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" plain \n", "plain"),
        ("<think>a</think> b", "b"),
        ("<think>a</think><think>b</think>c", "c"),
        ("<think>never ends", ""),
        ("a</think>b", "b"),
    ],
)
def test_what_is_said_comes_after_thinking(text, said):
    assert generations.Answer(text).said == said
