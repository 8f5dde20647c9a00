"""Torch's threads give way to other work while they wait, whatever the entry; the variable is read when torch is loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = """
import importlib.abc, os, sys

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            print("torch:", os.environ.get("GOMP_SPINCOUNT"))

sys.meta_path.insert(0, Watch())
"""
ENTRIES = {
    "a command of spyrl": """
from spy_env import cli
try:
    cli.main(["train", "--help"])
except SystemExit:
    import trainers.embedded.command, torch
""",
    "a command of another package": """
from importlib.metadata import EntryPoint
from spy_env import cli
cli.commands = lambda: {"mine": EntryPoint("mine", "torch:is_tensor", cli.GROUP)}
cli.main(["mine", "--help"])
""",
    "a training module": "import trainers.embedded.loop",
    "a benchmark": "import benchmarks.speed.gpu_check",
}


def spin_count_at_torch(entry: str, **own: str) -> str:
    """The variable's value when a fresh process first looks for torch."""
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"} | own
    program = [sys.executable, "-c", WATCHED + ENTRIES[entry]]
    ran = subprocess.run(program, capture_output=True, text=True, cwd=Path(__file__).parents[2], env=environment)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("torch: ")]
    assert lines, ran.stderr
    return lines[0].removeprefix("torch: ")


@pytest.mark.parametrize("entry", ENTRIES)
def test_waiting_threads_are_bounded_before_torch_is_loaded(entry):
    pytest.importorskip("transformers", reason="the trainers need the train extra")
    assert spin_count_at_torch(entry) == "10000"


def test_a_count_that_the_user_has_set_stays():
    pytest.importorskip("transformers", reason="the trainers need the train extra")
    assert spin_count_at_torch("a command of spyrl", GOMP_SPINCOUNT="7") == "7"
