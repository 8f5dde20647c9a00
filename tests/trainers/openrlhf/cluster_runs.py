"""Trainings of OpenRLHF in the tiny world, on a Ray cluster of this machine alone, which has GPUs by word only.

``openrlhf_on_cpu`` says how. Each training has a cluster of its own, and no process of it outlives the training.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.trainers import tiny_world

ROOT = Path(__file__).parents[3]
BRIDGE = Path(__file__).with_name("openrlhf_on_cpu")
DEADLINE = 900.0  # seconds; a training takes one to two minutes, and the first compiles DeepSpeed's operators
SPYRL = "import sys; from trainers.openrlhf.command import main; sys.exit(main(sys.argv[1:]))"
WITHOUT_GPU = (
    *("--vllm.sync_backend", "gloo", "--vllm.enforce_eager", "--vllm.num_engines", "1"),
    *("--ds.attn_implementation", "eager", "--actor.num_gpus_per_node", "1"),
)
GAMES = (
    *("--game.task", tiny_world.TASK, "--game.players", "4", "--data.max_len", "128"),
    *("--rollout.batch_size", "3", "--rollout.n_samples_per_prompt", "8", "--rollout.max_new_tokens", "8"),
    *("--rollout.detection.prefill", r"\boxed{", "--rollout.detection.stop", "}"),
    *("--train.micro_batch_size", "8", "--actor.adam.lr", "0.002"),
    *("--actor.lr_warmup_ratio", "0"),  # else OpenRLHF's first step has learning rate 0
)
# OpenRLHF then counts, as is_filter_ratio, the tokens whose probability differs by more than 1e-4 of itself between the
# engine that sampled them and the trainer.
ONE_POLICY = ("--algo.advantage.is_correction_threshold", "0.9999", "1.0001")


class Training:
    """A training that was begun."""

    def __init__(self, folder: Path, *flags: str) -> None:
        """``spyrl openrlhf`` with its results in ``folder``."""
        self.log = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.log")
        self.cluster = Path(tempfile.mkdtemp(prefix="ray-"))  # short: Ray's sockets lie deep in it
        command = [sys.executable, "-c", SPYRL, "--ckpt.output_dir", str(folder), *WITHOUT_GPU, *GAMES, *flags]
        environment = {
            **{name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "PYTEST_CURRENT_TEST")},
            "PYTHONPATH": os.pathsep.join((str(BRIDGE), str(ROOT))),
            "RAY_TMPDIR": str(self.cluster),
            "TORCH_EXTENSIONS_DIR": str(Path(sys.prefix) / "torch_extensions"),  # what is compiled fits one environment
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.steps: dict[int, dict[str, Any]] = {}

    def finish(self) -> Training:
        """Wait for its end, which must be a good one."""
        try:
            code = self.process.wait(DEADLINE)
        finally:
            self._end()
        assert code == 0, self._told()
        return self

    def kill_at(self, file: Path) -> Training:
        """End all its processes at once, as soon as it has written a file."""
        ends = time.monotonic() + DEADLINE
        try:
            while not file.exists() and self.process.poll() is None and time.monotonic() < ends:
                time.sleep(0.005)
        finally:
            self._end()
        assert file.exists(), self._told()
        return self

    def _end(self) -> None:
        """Leave no process and nothing of the cluster but what its trainer logged."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        while left := list(self._left()):
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.05)
        self.steps = logged_steps(self.cluster)
        shutil.rmtree(self.cluster, ignore_errors=True)

    def _left(self) -> Iterator[int]:
        """Processes that were started with this cluster's folder in their environment."""
        mark = f"RAY_TMPDIR={self.cluster}".encode()
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (process / "environ").read_bytes().split(b"\0"):
                        yield int(process.name)

    def _told(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-6000:]


def logged_steps(cluster: Path) -> dict[int, dict[str, Any]]:
    """What OpenRLHF's trainer logged of each global step."""
    text = "".join(
        file.read_text(encoding="utf-8", errors="replace") for file in cluster.glob("ray/session_2*/logs/worker-*.out")
    )
    return {int(step): ast.literal_eval(said) for step, said in re.findall(r"lobal step (\d+): (\{.*\})", text)}
