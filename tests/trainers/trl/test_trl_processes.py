"""Several processes of TRL share a batch of games, and it comes to what one process makes of it."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")

from tests.trainers import tiny_world
from tests.trainers.trl.trl_runs import games_in, lines_of
from trainers.trl.games import STATE

pytestmark = [pytest.mark.trl, pytest.mark.usefixtures("real_trl")]
ROOT = Path(__file__).parents[3]
RUN = """
import pathlib, sys
import torch
from tests.trainers.trl import trl_runs
torch.set_num_threads(1)
place, output, rows = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
changed = {"per_device_train_batch_size": rows, "max_steps": 3, "ddp_find_unused_parameters": False}
trl_runs.trainer_of(place, output, **changed).train()
"""


def run(place, output, processes, rows):
    script = place / "run.py"
    script.write_text(RUN, encoding="utf-8")
    launch = ["-m", "torch.distributed.run", f"--nproc_per_node={processes}", "--standalone"] if processes > 1 else []
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, *launch, str(script), str(place), output, str(rows)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return place / output


def test_two_processes_make_the_same_games_curriculum_and_weights_as_one(tmp_path):
    from safetensors.torch import load_file

    tiny_world.model_folder(tmp_path / "model", steps=60)
    one, two = run(tmp_path, "one", 1, 16), run(tmp_path, "two", 2, 8)
    for step in (1, 2, 3):
        assert games_in(two, step) == games_in(one, step)
        assert len(games_in(two, step)) == 4
    assert [row["step"] for row in lines_of(two)] == [1, 2, 3]
    assert lines_of(two) == lines_of(one)
    states = [(folder / "checkpoint-3" / STATE).read_text(encoding="utf-8") for folder in (one, two)]
    assert states[0] == states[1]
    start, *ends = (
        load_file(folder / "model.safetensors")
        for folder in (tmp_path / "model", *(each / "checkpoint-3" for each in (one, two)))
    )
    assert any((ends[0][name] - value).abs().max() > 1e-3 for name, value in start.items())
    for name, value in ends[0].items():
        torch.testing.assert_close(ends[1][name], value, rtol=0, atol=2e-4)
