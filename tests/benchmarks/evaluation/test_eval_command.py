"""``spyrl eval`` as its user calls it: models and judge are real endpoints in this process, data are the invented samples."""

from __future__ import annotations

import fcntl
import json

import pytest

from spy_env import cli
from tests.chat_server import Answer, says

SUITES = ("reasoning", "summarization", "creative_writing", "alignment")


def writes(text):
    """A model that says the same to everything, but for votes."""
    return lambda prompt, asked: says(rf"{text} \boxed{{2}}")


def judges(prompt, asked):
    """A judge that finds everything fair: it reads the format that the question asks for."""
    if "novelty" in prompt:
        return says(r"\boxed{novelty=A; emotion=A; coherence=tie; consistency=B; overall=A}")
    if ">" in prompt:
        return says(r"\boxed{1 > 2 > 3 > 4 > 5}")
    return says(r"\boxed{A}") if "Text A" in prompt else says(r"\boxed{7}")


@pytest.fixture
def command(serve, tmp_path):
    servers = {
        "model": serve(writes("The harbour fund had no rule.")),
        "base": serve(writes("A report.")),
        "judge": serve(judges),
    }

    def flags(suite, *more):
        ends = [word for role in servers for word in (f"--{role}", f"{servers[role].url}:m")]
        return [
            "eval",
            suite,
            *ends,
            "--data",
            "samples",
            "--limit",
            "1",
            "--aime_samples",
            "2",
            "--output",
            str(tmp_path / "out"),
            *more,
        ]

    flags.servers = servers
    return flags


def asked(command):
    return {role: len(server.received) for role, server in command.servers.items()}


@pytest.mark.slow
def test_all_suites_end_in_one_page_and_a_second_run_asks_for_nothing(command, tmp_path):
    assert cli.main(command("all")) == 0
    out, first = tmp_path / "out", asked(command)
    for suite in SUITES:
        results = json.loads((out / suite / "results.json").read_text(encoding="utf-8"))
        assert results["scores"], suite
        assert results["model"]["fingerprint"].endswith("#m")
        assert results["versions"]["python"]
        assert (out / suite / "table.md").read_text(encoding="utf-8").strip()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(title in page for title in ("GSM8K", "GovReport", "WritingBench"))
    assert all(first.values())
    assert cli.main(command("all")) == 0
    assert asked(command) == first


def test_a_dry_run_says_how_much_would_be_asked_for_and_asks_nothing(command, tmp_path, capsys):
    assert cli.main(command("summarization", "--dry-run")) == 0
    assert "summarization: 8 texts of each model, at most 16 questions to the judge" in capsys.readouterr().out
    assert not any(asked(command).values())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--limit", "0"], "--limit is 0; it must be at least 1"),
        (["--timeout", "0"], "--timeout is 0.0; give more than 0"),
        (["--gpu_memory_utilization", "1.5"], "--gpu_memory_utilization is 1.5; give a share"),
        (["--sets", "govreports"], "no data set 'govreports' here"),
        (["--judge", "gpt-4o"], "--judge is 'gpt-4o'; give URL:model"),
        (["--judge", "http://localhost:1/v1"], "names no model"),
        (["--judge_max_cost", "5"], "judge_price"),
        (["--judge", "", "--judge_price", "1", "2"], "--judge_price is given and no --judge"),
        (["--games", "g.jsonl"], "--games are for the alignment study"),
        (["--data", "nowhere"], "'nowhere', which is no folder"),
        (["--chat_template_kwargs", "[1]"], "give a JSON object"),
        (["--chat_template_kwargs", "{"], "not JSON"),
    ],
)
def test_a_wrong_flag_is_said_with_its_value_and_the_way_out(command, capsys, flags, said):
    assert cli.main(command("summarization", *flags)) == 2
    assert said in capsys.readouterr().err


def test_data_for_no_suite_at_all_is_an_error(command, tmp_path, capsys):
    assert cli.main(command("all", "--data", str(tmp_path))) == 2
    assert "nothing to evaluate" in capsys.readouterr().err


def test_answers_that_are_cut_below_the_protocol_s_length_are_said_beside_the_numbers(command, tmp_path):
    assert cli.main(command("summarization", "--sets", "qmsum", "--max_new_tokens", "9")) == 0
    assert "every answer is cut at 9 new tokens" in (tmp_path / "out/summarization/table.md").read_text(
        encoding="utf-8"
    )


def test_a_model_is_needed_but_for_saved_games(capsys, tmp_path):
    assert cli.main(["eval", "summarization", "--data", "samples", "--output", str(tmp_path)]) == 2
    assert "--model is missing" in capsys.readouterr().err


def test_a_folder_keeps_to_one_model(command, serve, capsys):
    assert cli.main(command("summarization", "--sets", "samsum")) == 0
    other = serve(writes("Something else."))
    assert cli.main(command("summarization", "--sets", "samsum", "--model", f"{other.url}:m")) == 2
    assert "holds results of another model" in capsys.readouterr().err
    assert not other.received


def test_a_folder_is_written_by_one_evaluation_at_a_time(command, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert cli.main(command("summarization", "--sets", "samsum")) == 2
    assert "another evaluation is writing" in capsys.readouterr().err
    assert not any(asked(command).values())


def test_answers_that_could_not_be_had_are_counted_and_asked_for_again(command, tmp_path, capsys):
    server = command.servers["model"]
    answer = server.answer
    server.answer = lambda prompt, times: Answer(b"{}", 400) if "cat" in prompt else answer(prompt, times)
    both = ["--sets", "samsum", "govreport", "--limit", "2"]
    assert cli.main(command("summarization", *both)) == 1
    assert "could not be had" in capsys.readouterr().out
    server.answer = answer
    assert cli.main(command("summarization", *both)) == 0


def test_rankings_that_could_not_be_had_are_said_and_what_the_judge_took_is_told(command, tmp_path, capsys):
    server = command.servers["judge"]
    answer, study = server.answer, ["--tasks", "summarization", "--limit", "2"]
    server.answer = lambda prompt, times: Answer(b"{}", 400) if len(server.received) == 1 else answer(prompt, times)
    assert cli.main(command("alignment", *study)) == 1
    assert "answers of alignment could not be had" in capsys.readouterr().out
    server.answer = answer
    assert cli.main(command("alignment", *study)) == 0
    results = json.loads((tmp_path / "out" / "alignment" / "results.json").read_text(encoding="utf-8"))
    assert results["judging"]["answers"] == 2
    assert results["judging"]["decoding"]["greedy"]


def test_a_model_against_itself_is_asked_twice(command):
    server = command.servers["model"]
    same = f"{server.url}:m"
    assert cli.main(command("creative_writing", "--base", same, "--sets", "writingprompts")) == 0
    assert len(server.received) == 2


def test_a_judge_that_is_down_takes_no_other_number_away(command, tmp_path, capsys):
    command.servers["judge"].answer = lambda prompt, asked: Answer(b"{}", 401)
    assert cli.main(command("all", "--sets", "samsum", "writingprompts", "--judge_retries", "0")) == 2
    assert "gave no answer" in capsys.readouterr().err
    told = json.loads((tmp_path / "out/summarization/results.json").read_text(encoding="utf-8"))
    assert {score["metric"].partition(" ")[0] for score in told["scores"]} == {"rouge-l", "rougeL"}
    assert any("the judge's numbers are missing" in note for note in told["notes"])
    assert (tmp_path / "out/creative_writing/results.json").exists()
    assert len(command.servers["judge"].received) == 2  # one pair in both orders; later suites ask it nothing


def test_an_endpoint_is_told_what_its_chat_template_takes(command):
    options = '{"enable_thinking": false}'
    assert cli.main(command("summarization", "--sets", "samsum", "--chat_template_kwargs", options)) == 0
    assert {str(request["chat_template_kwargs"]) for request in command.servers["model"].received} == {
        "{'enable_thinking': False}"
    }
    assert all("chat_template_kwargs" not in request for request in command.servers["judge"].received)


def test_the_room_of_a_model_stands_beside_its_numbers(command, tmp_path):
    assert cli.main(command("summarization", "--sets", "samsum", "--max_len", "3000")) == 0
    table = (tmp_path / "out/summarization/table.md").read_text(encoding="utf-8")
    assert "model: prompt and answer have 3000 tokens together" in table
