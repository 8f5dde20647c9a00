"""The summarization suite: what is asked, what is scored, what is counted, and what isn't done twice."""

from __future__ import annotations

import json
import sys
import zipfile
from dataclasses import replace

import pytest

pytest.importorskip("rouge", reason="scores summaries")
pytest.importorskip("rouge_score", reason="scores summaries")
pytest.importorskip("jieba", reason="cuts Chinese into words")

from benchmarks.evaluation import generations, rouge_scores, summarization
from benchmarks.evaluation.flags import Run
from benchmarks.evaluation.judge import Judge, JudgeSettings
from benchmarks.evaluation.results import read_results, write_results
from benchmarks.evaluation.rouge_scores import LEAD, Metric, rouge_package
from benchmarks.evaluation.summarization_tasks import DATA_SETS, LONGBENCH, TASKS
from tests.benchmarks.evaluation.shared_data import shared_data
from tests.benchmarks.evaluation.summaries import ITEMS, MEETING, Writer, contestant, run_on
from tests.chat_server import Answer, says
from trainers.engines import Failed, Reply

EVERY_SET = {name: [row] for name, row in ITEMS.items()}


def results_of(run, writers, judge=None):
    """What the command does with a suite."""
    found = summarization.items(run)
    answers = {role: summarization.generate(run, found, contestant(writer, role)) for role, writer in writers.items()}
    return summarization.score(run, found, answers, judge)


def by_name(results):
    return {(score.set, score.metric, score.who): score for score in results.scores}


def of(results, name, who, package="rouge-l F"):
    (score,) = (
        score
        for score in results.scores
        if (score.set, score.who) == (name, who)
        and score.metric.startswith(package)
        and "difference" not in score.metric
    )
    return score


def rows_of(name, count, document="A boat was sold for a budget.", summary="They sold it."):
    return {name: [{"id": f"i{i}", "document": f"{document} {i}", "summary": summary} for i in range(count)]}


def test_every_set_is_read_from_its_own_columns_asked_for_and_scored_by_both_packages(tmp_path):
    writer = Writer(lambda prompt: "预算问题" if "会议" in prompt else "The boat")
    results = results_of(run_on(tmp_path, EVERY_SET), {"model": writer})
    assert {score.set for score in results.scores} == set(DATA_SETS) == set(TASKS)
    assert {(score.who, score.metric.split(" F")[0]) for score in results.scores} == {
        (who, package) for who in ("model", LEAD) for package in ("rouge-l", "rougeL")
    }
    assert of(results, "qmsum", "model").value == pytest.approx(rouge_package("The boat", "The boat was sold."))
    prompts = [request.prompt for request in writer.asked]
    for row in ITEMS.values():
        document = row.get("context") or row.get("article") or row.get("text")
        assert sum(document in prompt for prompt in prompts) == 1
    assert any("What was sold?" in prompt and MEETING in prompt for prompt in prompts)


def test_chinese_never_scores_0_for_being_chinese_and_its_numbers_say_how_words_were_cut(tmp_path):
    writer = Writer(lambda prompt: "会上讨论了预算")
    results = results_of(run_on(tmp_path, {"vcsum": [ITEMS["vcsum"]]}), {"model": writer})
    assert all(score.value > 0.3 and "jieba" in score.metric for score in results.scores)
    assert "会议" in writer.asked[0].prompt
    assert not any(letter.isascii() and letter.isalpha() for letter in writer.asked[0].prompt)


def test_decoding_is_greedy_with_longbench_s_lengths(tmp_path):
    writer = Writer(lambda prompt: "text")
    results_of(run_on(tmp_path, EVERY_SET), {"model": writer})
    assert all(request.sampling.greedy for request in writer.asked)
    lengths = {request.sampling.max_new_tokens for request in writer.asked if "Ann: Tea?" in request.prompt}
    assert lengths == {128}
    assert {request.sampling.max_new_tokens for request in writer.asked if "Ann" not in request.prompt} == {512}


def test_samsum_is_few_shot_where_there_are_examples_and_scores_the_first_line(tmp_path):
    writer = Writer(lambda prompt: Reply("\nBo wants tea.\nDialogue: Dee: Tea?", truncated=True))
    few = results_of(run_on(tmp_path / "few", {"samsum": [ITEMS["samsum"]]}), {"model": writer})
    assert of(few, "samsum", "model").metric.endswith(", few-shot")
    assert of(few, "samsum", "model").value == pytest.approx(1, abs=1e-6)
    assert "truncated" not in of(few, "samsum", "model").counts  # its first line is whole
    assert "Cy greets." in writer.asked[0].prompt
    local = [{"dialogue": "Ann: Tea?\nBo: Yes.", "summary": "Bo wants tea."}]
    zero = results_of(run_on(tmp_path / "zero", {"samsum": local}), {"model": writer})
    assert of(zero, "samsum", "model").metric.endswith(", zero-shot")
    both = results_of(run_on(tmp_path / "both", {"samsum": [ITEMS["samsum"], *local]}), {"model": writer})
    assert of(both, "samsum", "model").metric.endswith(", partly few-shot")


def test_the_lead_of_a_document_is_scored_beside_the_model(tmp_path):
    run = run_on(tmp_path, {"qmsum": [{**ITEMS["qmsum"], "answers": ["The budget is too small."]}]})
    results = results_of(run, {"model": Writer(lambda prompt: "")})
    assert of(results, "qmsum", LEAD).value == rouge_package(MEETING, "The budget is too small.") > 0


def test_what_a_reader_must_know_is_counted_and_never_a_silent_0(tmp_path):
    replies = {
        "0": "",
        "1": Reply("<think>hm</think> ... ", truncated=False),
        "2": Reply("<think>never ends", truncated=True),
        "3": Failed("down"),
        "4": Reply("They sold", truncated=True),
        "5": "They sold it. " + "again " * 5000,
    }
    rows = rows_of("billsum", 6)
    rows["billsum"] += [
        {"id": "x", "document": "A boat.", "summary": "..."},
        {"id": "y", "document": "", "summary": "A"},
    ]
    rows["billsum"] += [{"id": "z", "document": "B boat.", "summary": None}]
    said = []
    writer = Writer(lambda prompt: replies[prompt.split("budget. ")[1][0]])
    results = results_of(run_on(tmp_path, rows, said), {"model": writer})
    score = of(results, "billsum", "model")
    assert score.n == 5
    assert score.counts == {
        "empty": 3,
        "failed": 1,
        "truncated": 2,
        "cut for scoring": 1,
        "no references": 2,
        "no document": 1,
    }
    assert score.value == pytest.approx(
        sum(rouge_package(text, "They sold it.") for text in ("They sold", replies["5"])) / 5
    )
    assert any("2 of 9 items of billsum are left out: no references" in line for line in said)
    assert "billsum: 6 of 9 items from" in results.notes[0]


def test_documents_too_long_for_the_model_are_shortened_and_counted(tmp_path):
    long = {
        "id": "long",
        "document": "It begins here. " + "filler " * 70_000 + "It ends there.",
        "summary": "It begins.",
    }
    run = run_on(tmp_path, {"govreport": [long, ITEMS["govreport"] | {"id": "g2"}]})
    writer, found = Writer(lambda prompt: "It begins."), summarization.items(run)
    who = contestant(writer, max_len=2048)
    results = summarization.score(run, found, {"model": summarization.generate(run, found, who)}, None)
    assert of(results, "govreport", "model").counts == {"shortened": 1}
    (prompt,) = (request.prompt for request in writer.asked if "filler" in request.prompt)
    assert who.reader.count_tokens(prompt, "") <= 2048 - 512
    task = TASKS["govreport"]
    assert prompt.startswith(f"{task.before}\n\nIt begins here.")
    assert prompt.endswith(f"It ends there.\n\n{task.after}")


def test_examples_are_shortened_before_the_chat_itself(tmp_path):
    row = {**ITEMS["samsum"], "context": "Dialogue: Cy: Hi\nSummary: Cy greets.\n" * 500}
    run = run_on(tmp_path, {"samsum": [row]})
    writer, found = Writer(lambda prompt: "Tea."), summarization.items(run)
    summarization.generate(run, found, contestant(writer, max_len=1000))
    assert writer.asked[0].prompt.endswith(row["input"])
    assert writer.asked[0].prompt.count("Cy greets.") > 20


def test_a_model_too_short_for_the_task_is_refused_with_the_numbers(tmp_path):
    run = run_on(tmp_path, EVERY_SET)
    with pytest.raises(ValueError, match=r"govreport, item g1, for the model with 520 tokens: .*8 are free.*--max_len"):
        summarization.generate(run, summarization.items(run), contestant(Writer(str), max_len=520))


def test_answers_that_are_capped_leave_their_room_to_the_document(tmp_path):
    long = {"id": "long", "document": "filler " * 9000, "summary": "It begins."}
    run = run_on(tmp_path, {"govreport": [long]})
    prompts = []
    for cap in (None, 64):
        writer = Writer(lambda prompt: "T")
        who = contestant(writer, max_len=1024)
        who.max_new_tokens = cap
        summarization.generate(run, summarization.items(run), who)
        prompts.append(len(writer.asked[0].prompt))
    assert prompts[1] - prompts[0] == pytest.approx(3 * (512 - 64), rel=0.2)


def test_an_interrupted_run_goes_on_without_writing_anything_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(generations, "ROWS_AT_A_TIME", 2)
    run = run_on(tmp_path, rows_of("multi_news", 7))
    found = summarization.items(run)
    killed = Writer(lambda prompt: KeyboardInterrupt() if len(killed.asked) == 5 else f"Text on {prompt}")
    with pytest.raises(KeyboardInterrupt):
        summarization.generate(run, found, contestant(killed))
    going_on = Writer(lambda prompt: f"Text on {prompt}")
    written = summarization.generate(run, found, contestant(going_on))
    kept = {request.prompt for request in killed.asked[:4]}  # the fifth was under way with the sixth
    assert len(going_on.asked) == 3
    assert not kept & {request.prompt for request in going_on.asked}
    assert [answer.text[-1000:].split("budget. ")[1][0] for answer in written.answers["multi_news"]] == list("0123456")
    unneeded = contestant(Writer(str))
    unneeded.load = lambda: pytest.fail("loaded for nothing")
    assert summarization.generate(run, found, unneeded) == written
    lines = (run.output / "summarization" / "generations.jsonl").read_text().splitlines()
    assert len({json.loads(line)["item"] for line in lines}) == len(lines) == 7


def test_what_the_infrastructure_failed_is_tried_again_by_the_next_run(tmp_path):
    run = run_on(tmp_path, rows_of("multi_news", 2))
    found = summarization.items(run)
    first = summarization.generate(run, found, contestant(Writer(lambda p: Failed("x") if "0" in p else "One.")))
    second = Writer(lambda prompt: "Zero.")
    again = summarization.generate(run, found, contestant(second))
    assert [bool(answer.failed) for answer in first.answers["multi_news"]] == [True, False]
    assert [answer.text for answer in again.answers["multi_news"]] == ["Zero.", "One."]
    assert len(second.asked) == 1


def test_the_difference_to_the_base_is_of_the_same_items(tmp_path):
    run = run_on(tmp_path, rows_of("arxiv", 4))
    model = Writer(lambda prompt: Failed("down") if "budget. 0" in prompt else "They sold it.")
    base = Writer(lambda prompt: Failed("down") if "budget. 1" in prompt else "They sold")
    results = results_of(run, {"model": model, "base": base})
    (score,) = (s for s in results.scores if s.metric.startswith("rouge-l") and s.who == "model against base")
    assert score.metric.endswith("difference")
    assert (score.n, score.counts) == (2, {"failed": 2})
    assert score.value == pytest.approx(1 - rouge_package("They sold", "They sold it."), abs=1e-6)
    assert of(results, "arxiv", "model").n == of(results, "arxiv", "base").n == 3


def test_a_model_against_itself_differs_by_nothing_and_no_interval_claims_more(tmp_path):
    same = Writer(lambda prompt: "They sold it.")
    results = results_of(run_on(tmp_path, rows_of("arxiv", 4)), {"model": same, "base": Writer(same.write)})
    differences = [score for score in results.scores if score.metric.endswith("difference")]
    assert [(score.value, score.low, score.high) for score in differences] == [(0, None, None)] * 2


def judge_of(server, run):
    return Judge(JudgeSettings(server.url, "m", retries=0), run.output, run.say)


def test_with_a_base_and_a_judge_pairs_are_compared_on_the_request_and_the_document(tmp_path, serve):
    def prefers_boats(prompt: str, times: int) -> Answer:
        first = prompt.index("| They sold it.") < prompt.index("| Text.")
        return says(rf"\boxed{{{'A' if first else 'B'}}}")

    server = serve(prefers_boats)
    rows = rows_of("qmsum", 3)
    rows["qmsum"] = [{**row, "query": f"Query {i}"} for i, row in enumerate(rows["qmsum"])]
    rows["qmsum"][2]["document"] = "A very long boat. " * 4000
    run = run_on(tmp_path, rows)
    writers = {"model": Writer(lambda prompt: "They sold it."), "base": Writer(lambda prompt: "Text.")}
    results = results_of(run, writers, judge_of(server, run))
    assert by_name(results)["qmsum", "win rate, overall", "model against base"].value == 1
    assert summarization.calls(run, summarization.items(run), against=True, judged=True) == (3, 6)
    assert sum(server.prompts.values()) == 6
    assert sum("Query 1" in prompt and "A boat was sold" in prompt for prompt in server.prompts) == 2
    assert all(len(prompt) < 4 * summarization.JUDGED_TOKENS for prompt in server.prompts)
    assert "the judge read 1 of 3 documents shortened to 8192 tokens" in results.notes
    assert "pairs" in results.protocol
    assert results_of(run, writers, judge_of(server, run)).scores == results.scores
    assert sum(server.prompts.values()) == 6


def test_without_a_judge_or_a_base_there_are_no_questions(tmp_path):
    run = run_on(tmp_path, EVERY_SET)
    found = summarization.items(run)
    assert summarization.calls(run, found, against=True, judged=False) == (8, 0)
    assert summarization.calls(run, found, against=False, judged=True) == (8, 0)
    assert not any("win" in score.metric for score in results_of(run, {"model": Writer(str)}).scores)


BAD = {
    "a missing column": ({"document": "A boat."}, "needs 'references', in a column 'references' or 'answers' or"),
    "no document's column": ({"summary": "A boat."}, "needs 'document'"),
    "a number for a document": ({"document": 5, "summary": "A boat."}, "document is '5'; give a text"),
    "numbers for references": ({"document": "A boat.", "answers": [1]}, "a text or a list of texts"),
    "no gold at all": ({"document": "A boat.", "summary": " "}, "none that can be evaluated"),
    "references of dots": ({"document": "A boat.", "answers": ["...", ""]}, "no item of govreport has a reference"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_data_is_an_error_that_says_where(tmp_path, what):
    row, said = BAD[what]
    with pytest.raises(ValueError, match=said) as error:
        summarization.items(run_on(tmp_path, {"govreport": [row]}))
    assert "govreport.jsonl" in str(error.value)


def test_a_meeting_without_its_query_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="needs 'query'"):
        summarization.items(run_on(tmp_path, {"qmsum": [{"document": MEETING, "summary": "A boat."}]}))


def test_sets_without_a_file_are_named_and_none_at_all_is_an_error(tmp_path):
    said = []
    found = summarization.items(run_on(tmp_path, {"qmsum": [ITEMS["qmsum"]]}, said))
    assert list(found) == ["qmsum"]
    assert sum("is left out" in line for line in said) == len(DATA_SETS) - 1
    with pytest.raises(ValueError, match="no data set to evaluate"):
        summarization.items(run_on(tmp_path / "other", {"poems": []}))
    with pytest.raises(ValueError, match=r"no data set to evaluate .*gsm8k"):
        summarization.items(run_on(tmp_path, {"qmsum": [ITEMS["qmsum"]]}, sets=("gsm8k",)))


def test_what_a_model_writes_is_never_an_exception(tmp_path):
    wild = "\ud83d lone \x00 \u202e {query} {document} \\boxed{ <|im_end|>"
    run = run_on(tmp_path, {"vcsum": [ITEMS["vcsum"]], "qmsum": [ITEMS["qmsum"]]})
    results = results_of(run, {"model": Writer(lambda prompt: wild), "base": Writer(lambda prompt: wild)})
    write_results(results, run.output / "summarization", {})
    assert read_results(run.output / "summarization" / "results.json")[0].scores == results.scores


def test_scores_are_written_by_item(tmp_path):
    run = run_on(tmp_path, rows_of("arxiv", 2))
    results = results_of(run, {"model": Writer(lambda prompt: "They sold it.")})
    lines = [json.loads(line) for line in (run.output / "summarization" / "scores.jsonl").read_text().splitlines()]
    assert [(line["item"], line["who"]) for line in lines] == [
        (f"i{i}", who) for who in ("model", LEAD) for i in (0, 1)
    ]
    assert {metric for line in lines for metric in line["scores"]} == {score.metric for score in results.scores}


def test_a_package_that_scoring_needs_is_missed_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge", None)
    run, writer = run_on(tmp_path, rows_of("arxiv", 2)), Writer(str)
    with pytest.raises(ValueError, match=r"rouge: pip install -e '\.\[eval\]'"):
        summarization.generate(run, summarization.items(run), contestant(writer))
    assert writer.asked == []


def test_what_was_scored_is_not_scored_again(tmp_path, monkeypatch):
    run, writer = run_on(tmp_path, rows_of("arxiv", 2)), Writer(lambda prompt: "They sold it.")
    results = results_of(run, {"model": writer})
    scored_anew = []
    metric = Metric("rouge-l F (rouge 1.0.1)", lambda text, _: scored_anew.append(text) or 0.5)
    named = Metric("rougeL F (rouge-score 0.1.2, no stemmer)", metric.score)
    monkeypatch.setattr(rouge_scores, "metrics", lambda chinese: (metric, named))
    assert results_of(run, {"model": writer}).scores == results.scores
    assert scored_anew == []
    results_of(run, {"model": writer, "base": Writer(lambda prompt: "Another.")})
    assert scored_anew == ["Another."] * 4
    other = contestant(Writer(lambda prompt: "They sold."))
    other.fingerprint = "other weights"
    found = summarization.items(run)
    summarization.score(run, found, {"model": summarization.generate(run, found, other)}, None)
    assert scored_anew[4:] == ["They sold."] * 4


def test_longbench_s_zip_is_read_as_the_hub_has_it(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="reads hubs")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        for name, row in ITEMS.items():
            if "answers" in row:
                file = {"govreport": "gov_report"}.get(name, name)
                archive.writestr(f"data/{file}.jsonl", json.dumps(row, ensure_ascii=False) + "\n")
    local = {
        name: replace(
            data_set,
            hub=data_set.hub._replace(data_files=data_set.hub.data_files.replace(LONGBENCH, f"{tmp_path}/data.zip")),
        )
        for name, data_set in DATA_SETS.items()
        if "answers" in ITEMS[name]
    }
    monkeypatch.setattr(summarization, "DATA_SETS", local)
    found = summarization.items(Run(tmp_path / "out", sets=tuple(local)))
    assert {name: read.rows[0]["id"] for name, read in found.items()} == {
        name: row["_id"] for name, row in ITEMS.items() if "answers" in row
    }


def test_the_samples_in_the_package_hold_every_set(tmp_path):
    from benchmarks.evaluation.flags import SAMPLES

    said = []
    found = summarization.items(Run(tmp_path, SAMPLES, say=said.append))
    assert tuple(found) == summarization.SETS
    assert said == []


def test_published_sets_have_real_items(tmp_path):
    folder = shared_data("summ_qmsum.jsonl").parent
    found = summarization.items(Run(tmp_path, folder, limit=3, say=[].append))
    assert {name: len(read.rows) for name, read in found.items()} == {"govreport": 3, "multi_news": 3, "qmsum": 3}


@pytest.mark.slow
def test_the_small_model_summarizes_a_real_meeting(tmp_path, monkeypatch):
    from benchmarks.evaluation.contestants import Loading
    from benchmarks.evaluation.contestants import contestant as loaded

    folder = shared_data("summ_qmsum.jsonl").parent
    monkeypatch.setitem(TASKS, "qmsum", TASKS["qmsum"]._replace(new_tokens=64))  # a CPU takes minutes for 512
    run = Run(tmp_path / "out", folder, limit=1, sets=("qmsum",))
    who = loaded("model", "smollm2-135m", Loading(max_len=640))
    found = summarization.items(run)
    results = summarization.score(run, found, {"model": summarization.generate(run, found, who)}, None)
    assert 0 < of(results, "qmsum", "model").value < 0.6
    assert of(results, "qmsum", "model").counts["shortened"] == 1
