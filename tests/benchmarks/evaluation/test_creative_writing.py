"""The suite of creative writing: what is read and left out, what is asked, and what the numbers say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.evaluation import creative_writing as suite
from benchmarks.evaluation.checklists import METRIC
from benchmarks.evaluation.contestants import Contestant, Loading, contestant
from benchmarks.evaluation.creative_writing import language, statistics
from benchmarks.evaluation.flags import Run
from benchmarks.evaluation.generations import Answer as Written
from benchmarks.evaluation.results import read_results, write_results
from spy_env.wording import distinct_2, words
from tests.benchmarks.evaluation.scripted_judges import judge_at, texts_of, unquoted
from tests.benchmarks.evaluation.shared_data import shared_data
from tests.chat_server import Answer, says
from trainers.engines import Failed, Reply

CRITERION = {
    "name": "Voice",
    "criteria_description": "Is it one person's?",
    **{level: f"level {level}" for level in ("1-2", "3-4", "5-6", "7-8", "9-10")},
}
TWO = [CRITERION, {**CRITERION, "name": "Ending"}]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Intervals of few resamples: none of these tests reads them."""
    monkeypatch.setattr("benchmarks.evaluation.intervals.RESAMPLES", 50)


class Writer:
    """Writes by a function of the request; None is a failure. ``asked`` keeps the requests."""

    def __init__(self, write):
        self.write, self.asked = write, []

    def generate(self, requests):
        self.asked += requests
        said = [self.write(request.prompt) for request in requests]
        return [
            Failed("no answer") if text is None else Reply(text.removesuffix("<cut>"), truncated=text.endswith("<cut>"))
            for text in said
        ]

    def count_tokens(self, prompt, prefill):
        return len(prompt.split())


def writer(role, write, max_len=None):
    engine = Writer(write)
    return Contestant(role, role, role, engine, max_len, lambda: engine)


def a_run(tmp_path, **sets):
    """A run over a folder of these rows, by data set."""
    folder = tmp_path / "data"
    folder.mkdir(exist_ok=True)
    for name, rows in sets.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = []
    return Run(tmp_path / "out", data=folder, say=told.append), told


PROMPTS = [{"prompt": f"[ WP ] A door number {i} ."} for i in range(4)]
BENCH = [
    {"index": 1, "query": "Write a letter.", "checklist": TWO},
    {"index": 2, "query": "写一封感谢信，不少于二百字。", "checklist": [CRITERION]},
]


def by_name(results):
    return {(score.set, score.metric, score.who): score for score in results.scores}


def test_items_are_read_cleaned_and_what_is_left_out_is_said(tmp_path):
    odd = [{"prompt": "[ IP ] A picture"}, {"prompt": "[ EU ] A door number 0."}, {"prompt": ""}]
    run, told = a_run(tmp_path, writingprompts=PROMPTS + odd, writingbench=BENCH)
    found = suite.items(run)
    assert [row["prompt"] for row in found["writingprompts"].rows] == [f"A door number {i}." for i in range(4)]
    assert found["writingprompts"].excluded == {
        "no prompt": 1,
        "no prompt in words ([ IP ])": 1,
        "repeated prompt": 1,
    }
    assert [row["lang"] for row in found["writingbench"].rows] == ["en", "zh"]
    assert len(suite.items(replace(run, limit=4))["writingprompts"].rows) == 4  # drawn from what is left
    assert any("4 of 7 items" in line and "repeated prompt" in line for line in told)


def test_a_larger_limit_adds_to_the_items_of_a_smaller_one(tmp_path):
    run, _ = a_run(tmp_path, writingprompts=[{"prompt": f"Prompt {i}"} for i in range(30)], writingbench=BENCH)
    few, many = (
        {row["id"] for row in suite.items(replace(run, limit=limit))["writingprompts"].rows} for limit in (5, 12)
    )
    assert (len(few), len(many)) == (5, 12)
    assert few < many


def test_only_chosen_sets_are_read_and_none_at_all_is_an_error(tmp_path):
    run, _ = a_run(tmp_path, writingprompts=PROMPTS)
    assert list(suite.items(run)) == ["writingprompts"]
    with pytest.raises(ValueError, match=r"creative writing has no data.*writingbench\.jsonl"):
        suite.items(replace(run, sets=("writingbench",)))


BAD = {
    "a missing column": ({"writingbench": [{"query": "Write."}]}, "'checklist'"),
    "another missing column": ({"writingprompts": [{"text": "A door."}]}, "'prompt'"),
    "a checklist that is none": ({"writingbench": [{"query": "Write.", "checklist": "Voice"}]}, "it must be a list"),
    "a level without its words": (
        {"writingbench": [{"query": "Write.", "checklist": [{**CRITERION, "5-6": ""}]}]},
        r"lacks \['5-6'\]",
    ),
    "a criterion that is a word": ({"writingbench": [{"query": "Write.", "checklist": ["Voice"]}]}, "'name'"),
    "no prompt at all": ({"writingprompts": [{"prompt": "[ OT ] Talk"}]}, "no prompt in words"),
    "empty prompts alone": ({"writingprompts": [{"prompt": " "}]}, "none that can be evaluated"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_data_is_an_error_that_says_what_is_wrong(tmp_path, what):
    rows, told = BAD[what]
    with pytest.raises(ValueError, match=told):
        suite.items(a_run(tmp_path, **rows)[0])


def test_an_item_whose_checklist_is_missing_is_left_out_and_counted(tmp_path):
    run, _ = a_run(tmp_path, writingbench=[*BENCH, {"query": "Write.", "checklist": []}])
    assert suite.items(run)["writingbench"].excluded == {"no checklist": 1}


def test_texts_are_asked_for_by_the_protocol_once_and_too_long_requests_are_left_out(tmp_path):
    long = {"index": 9, "query": "word " * 100_000, "checklist": TWO}
    run, _ = a_run(tmp_path, writingprompts=PROMPTS, writingbench=[*BENCH, long])
    who = writer("model", lambda prompt: f"<think>hm</think> About {prompt}", max_len=9000)
    found = suite.items(run)
    for _ in range(2):
        written = suite.generate(run, found, who)
    assert len(who.engine.asked) == 6  # the second time nothing
    assert {name: len(texts) for name, texts in written.items()} == {"writingprompts": 4, "writingbench": 2}
    samplings = {request.prompt: request.sampling for request in who.engine.asked}
    story = samplings["Write a short story from this prompt:\n\nA door number 0."]
    letter = samplings["Write a letter."]
    assert (story.max_new_tokens, letter.max_new_tokens) == (2048, 9000 - 3)
    assert {(s.temperature, s.top_p, s.top_k, s.greedy) for s in samplings.values()} == {(0.7, 0.8, 20, False)}
    results = suite.score(run, found, {"model": written}, None)
    assert by_name(results)["writingbench", "length in words", "model"].counts == {"prompt too long": 1}


def test_without_a_judge_there_are_statistics_of_the_texts_and_nothing_else(tmp_path):
    run, _ = a_run(tmp_path, writingprompts=PROMPTS)
    texts = iter(["one two one two", "one two three<cut>", "", None])
    found = suite.items(run)
    written = suite.generate(run, found, writer("model", lambda _: next(texts)))
    results = suite.score(run, found, {"model": written}, None)
    scores = {metric: score for (_, metric, _), score in by_name(results).items()}
    assert {metric: (score.value, score.n) for metric, score in scores.items()} == {
        "length in words": (pytest.approx(7 / 3), 3),
        "distinct-2 within a text": (pytest.approx((2 / 3 + 1) / 2), 2),
        "truncated texts": (pytest.approx(1 / 3), 3),
        "empty texts": (pytest.approx(1 / 3), 3),
    }
    assert scores["length in words"].counts == {"failed": 1, "empty": 1, "truncated": 1}
    assert any("no judge was given" in note for note in results.notes)
    write_results(results, tmp_path / "written", {})


def graded_text(prompt):
    return unquoted(prompt.split("\nThe text:\n")[1].split("\n\n")[0])


def judge_of(grades):
    """Prefers the text that comes first in the alphabet; grades by the table, 5 elsewhere."""

    def verdict(prompt, _):
        if "Text A" in prompt:
            a, b = texts_of(prompt)
            return says(r"\boxed{" + "; ".join(f"{name}={'A' if a < b else 'B'}" for name in suite.CRITERIA) + "}")
        criterion = prompt.split("The criterion: ")[1].split("\n")[0]
        return grades.get((graded_text(prompt), criterion), says(r"Fine. \boxed{5}"))

    return verdict


def test_checklists_and_pairs_are_judged_counted_and_kept(serve, tmp_path):
    run, _ = a_run(tmp_path, writingprompts=PROMPTS, writingbench=BENCH)
    found = suite.items(run)
    model = suite.generate(run, found, writer("model", lambda prompt: "" if "number 0" in prompt else f"a {prompt}"))
    base = suite.generate(run, found, writer("base", lambda prompt: None if "number 1" in prompt else f"b {prompt}"))
    grades = {
        ("a Write a letter.", "Voice"): says(r"\boxed{9}"),
        ("a Write a letter.", "Ending"): says(r"\boxed{6}"),
        ("b Write a letter.", "Voice"): says("I would give it a 9 of 10."),
        ("b Write a letter.", "Ending"): Answer(b"{}", 400),
    }
    server = serve(judge_of(grades))
    answers = {"model": model, "base": base}
    results = suite.score(run, found, answers, judge_at(server, run.output))
    scores = by_name(results)
    against = "model against base"
    assert scores["writingbench", METRIC, "model"].value == pytest.approx((7.5 + 5) / 2)
    assert scores["writingbench", METRIC + ", en", "model"].value == 7.5
    assert scores["writingbench", METRIC + ", zh", "model"].value == 5
    assert (scores["writingbench", METRIC, "base"].value, scores["writingbench", METRIC, "base"].n) == (5, 1)
    assert scores["writingbench", METRIC, "base"].counts == {
        "failed": 1,
        "unreadable verdict": 1,
        "items without a grade": 1,
    }
    assert not scores["writingbench", METRIC, "model"].percent
    for criterion in suite.CRITERIA:
        assert scores["writingbench", f"win rate, {criterion}", against].value == 1
        stories = scores["writingprompts", f"win rate, {criterion}", against]
        assert (stories.value, stories.n) == (pytest.approx(2 / 3), 3)  # two won, an empty one lost
        assert stories.counts == {"pairs": 3, "judged": 2, "empty (model)": 1, "no pair of texts": 1}
    sampled = [row for row in server.received if "Text A" not in row["messages"][0]["content"]]
    assert {(row["temperature"], row["top_p"], row["max_tokens"]) for row in sampled} == {(1.0, 0.95, 2048)}
    grades_kept = [json.loads(line) for line in (run.output / suite.NAME / "grades.jsonl").read_text().splitlines()]
    assert len(grades_kept) == 6
    asked = len(server.received)
    again = suite.score(run, found, answers, judge_at(server, run.output))
    assert len(server.received) == asked + 1  # the failed one alone
    assert str(again.scores) == str(results.scores)  # what has no value is no number, and equals nothing
    write_results(results, tmp_path / "written", {})
    read, _ = read_results(tmp_path / "written" / "results.json")
    assert by_name(read)["writingbench", METRIC, "base"].counts == scores["writingbench", METRIC, "base"].counts


def test_an_empty_text_gets_no_points_and_no_question(serve, tmp_path):
    run, _ = a_run(tmp_path, writingbench=BENCH)
    found = suite.items(run)
    written = suite.generate(run, found, writer("model", lambda prompt: "" if "letter" in prompt else "好"))
    server = serve(judge_of({}))
    scores = by_name(suite.score(run, found, {"model": written}, judge_at(server, run.output)))
    assert scores["writingbench", METRIC, "model"].value == 2.5
    assert scores["writingbench", METRIC, "model"].counts == {"empty": 1}
    assert len(server.received) == 1


def test_a_text_that_could_not_be_had_is_no_bad_text(serve, tmp_path):
    run, _ = a_run(tmp_path, writingbench=BENCH)
    found = suite.items(run)
    written = suite.generate(run, found, writer("model", lambda prompt: None if "letter" in prompt else "好"))
    results = suite.score(run, found, {"model": written}, judge_at(serve(judge_of({})), run.output))
    score = by_name(results)["writingbench", METRIC, "model"]
    assert (score.value, score.n, score.counts) == (5, 1, {"texts failed": 1})


def test_the_number_of_calls_is_what_is_asked(serve, tmp_path):
    run, _ = a_run(tmp_path, writingprompts=PROMPTS, writingbench=BENCH)
    found = suite.items(run)
    server = serve(judge_of({}))
    writers = [writer(role, lambda prompt, role=role: f"{role}: {prompt}") for role in ("model", "base")]
    written = {who.role: suite.generate(run, found, who) for who in writers}
    suite.score(run, found, written, judge_at(server, run.output))
    calls = suite.calls(run, found, against=True, judged=True)
    assert calls.texts == len(writers[0].engine.asked) == 6
    assert calls.questions == len(server.received) == 18
    assert suite.calls(run, found, against=False, judged=True).questions == 3
    assert suite.calls(run, found, against=True, judged=False).questions == 0


def test_words_languages_and_variety_are_told_by_hand():
    assert words("It isn't 写信, OK_2!") == ("it", "isn't", "写", "信", "ok", "2")
    assert distinct_2(["a b a b"]) == pytest.approx(2 / 3)
    scores = {score.metric: score for score in statistics("s", "model", [Written("a"), Written("a b a b")], {}, 0)}
    assert (scores["distinct-2 within a text"].value, scores["distinct-2 within a text"].n) == (pytest.approx(2 / 3), 1)
    assert [language(text) for text in ("A letter 信 to all of you", "写一封信 OK", "")] == ["en", "zh", "en"]


@pytest.mark.slow
def test_writingbench_s_own_file_is_read_as_a_hub_reads_it(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    file = tmp_path / "benchmark_all.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in BENCH), encoding="utf-8")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    here = replace(suite.BENCH, hub=suite.BENCH.hub._replace(data_files=str(file)))
    monkeypatch.setattr(suite, "BENCH", here)
    found = suite.items(Run(tmp_path / "out", sets=("writingbench",), say=lambda _: None))
    assert [(row["id"], row["prompt"], len(row["checklist"])) for row in found["writingbench"].rows] == [
        ("1", "Write a letter.", 2),
        ("2", BENCH[1]["query"], 1),
    ]


def test_the_local_items_are_read(tmp_path):
    folder = shared_data("eval_writingbench_length.jsonl").parent
    found = suite.items(Run(tmp_path, data=folder, say=lambda _: None))
    assert (len(found["writingprompts"].rows), len(found["writingbench"].rows)) == (91, 222)
    assert found["writingprompts"].excluded == {"repeated prompt": 3}
    told = [json.loads(line)["lang"] for line in (folder / "eval_writingbench_length.jsonl").open(encoding="utf-8")]
    guessed = [language(row["prompt"]) for row in found["writingbench"].rows]
    assert sum(a == b for a, b in zip(told, guessed, strict=True)) >= 220


@pytest.mark.slow
def test_a_small_real_model_writes_and_is_judged_on_one_item_of_each_set(serve, tmp_path):
    pytest.importorskip("transformers")
    run, _ = a_run(tmp_path, writingprompts=PROMPTS[:1], writingbench=BENCH[:1])
    found = suite.items(run)
    who = contestant("model", "smollm2-135m", Loading())
    who.max_new_tokens = 48
    written = {"model": suite.generate(run, found, who)}
    written["base"] = suite.generate(run, found, writer("base", lambda prompt: f"zzz {prompt}"))
    results = suite.score(run, found, written, judge_at(serve(judge_of({})), run.output))
    scores = by_name(results)
    assert scores["writingbench", METRIC, "model"].value == 5
    assert scores["writingprompts", "win rate, overall", "model against base"].value == 1
    assert scores["writingprompts", "length in words", "model"].value > 10
