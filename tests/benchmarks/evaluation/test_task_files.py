"""The task files by lm-evaluation-harness' own command, with its own backends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lm_eval", reason="task files are lm-evaluation-harness', of the eval extra")

from benchmarks.evaluation.flags import SAMPLES
from benchmarks.evaluation.harness import TASKS
from benchmarks.evaluation.problems import PROBLEM_SETS
from tests.chat_server import says

ROOT = Path(__file__).parents[3]
AIME = [{"id": i, "problem": f"{i}?", "answer": str(i)} for i in (1, 2)]


def harness(tmp_path, model, model_args, *more):
    """The right share that ``lm_eval`` reports for each task, and the samples it logs."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "aime24.jsonl").write_text("".join(json.dumps(row) + "\n" for row in AIME))
    (data / "gsm8k.jsonl").write_text(json.dumps({"question": "Two and two?", "answer": "#### 4"}) + "\n")
    flags = {
        "--model": model,
        "--model_args": model_args,
        "--tasks": "spyrl_gsm8k,spyrl_aime24",
        "--include_path": str(TASKS),
        "--metadata": json.dumps({"data": str(data)}),
        "--output_path": str(tmp_path / "out"),
    }
    command = [sys.executable, "-m", "lm_eval", *[word for pair in flags.items() for word in pair]]
    ran = subprocess.run(
        [*command, "--apply_chat_template", "--log_samples", *more],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]]),
            "OPENAI_API_KEY": "none",
            "HF_HUB_OFFLINE": "1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    (results,) = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(results.read_text())["results"]
    logged = [json.loads(line) for file in (tmp_path / "out").rglob("samples_*.jsonl") for line in file.open()]
    return {task: row["right,all"] for task, row in found.items()}, logged


@pytest.mark.slow
def test_they_run_on_an_endpoint_by_the_harness_own_command(serve, tmp_path):
    pytest.importorskip("tenacity", reason="the harness' own endpoints need lm-eval[api]")
    server = serve(lambda prompt, asked: says(rf"\boxed{{{4 if 'Two' in prompt or asked % 2 else 1}}}"))
    args = f"model=m,base_url={server.url}/chat/completions,num_concurrent=1,max_retries=1"
    right, _ = harness(tmp_path, "local-chat-completions", args)
    assert right == {"spyrl_gsm8k": 1, "spyrl_aime24": 0.25}
    assert len(server.received) == 1 + 2 * 16
    sent = [row for row in server.received if "Two" in row["messages"][-1]["content"]]
    assert [(row["temperature"], row["max_tokens"], len(row["messages"])) for row in sent] == [(0, 4096, 1)]
    assert {row["temperature"] for row in server.received} == {0, 0.6}


@pytest.mark.slow
def test_they_run_on_a_transformers_folder_by_the_harness_own_command(tmp_path):
    from trainers.first_run.downloads import small_model

    short = "max_gen_toks=8"
    right, logged = harness(
        tmp_path, "hf", f"pretrained={small_model()},dtype=float32", "--batch_size", "4", "--gen_kwargs", short
    )
    assert set(right) == {"spyrl_gsm8k", "spyrl_aime24"}
    assert all("<|im_start|>user" in row["arguments"]["gen_args_0"]["arg_0"] for row in logged)
    assert {len(row["resps"][0]) for row in logged if "problem" not in row["doc"]} == {1, 16}


def test_each_set_has_a_task_file_that_fits_what_the_suite_says_of_it():
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=TASKS, include_defaults=False, metadata={"data": str(SAMPLES)})
    assert set(manager.all_tasks) == {f"spyrl_{name}" for name in PROBLEM_SETS}
    for task in manager.load(list(manager.all_tasks))["tasks"].values():
        kind = PROBLEM_SETS[task.config.metadata["set"]]
        assert (task.config.repeats > 1) == task.config.generation_kwargs["do_sample"] == kind.sampled
        prompt = task.doc_to_text(task.test_docs()[0])
        assert r"inside \boxed{}" in prompt
        assert ("\nB. " in prompt) == (kind.kind == "choice")
