import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="the embedded trainer needs the train extra")

BLOCKED = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"tyro", "openai", "datasets"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
"""


def test_the_embedded_trainer_and_the_check_of_a_gpu_need_only_torch_and_transformers_beside_the_environment():
    program = (
        BLOCKED
        + "import spy_env, trainers.embedded.loop, benchmarks.speed.gpu_check; print('trainers.embedded.display' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    # transformers itself imports rich where it finds it; the loop imports no display
    assert ran.stdout.strip() == "False", ran.stderr


def test_the_first_runs_downloads_are_loaded_only_where_they_are_named():
    users = (
        "trainers.embedded.loop, trainers.corpus, trainers.engines.players, trainers.inspection.revoting, trainers.play"
    )
    program = f"import sys, {users}; print([name for name in sys.modules if name.startswith('trainers.first_run')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert ran.stdout.strip() == "[]", ran.stderr
