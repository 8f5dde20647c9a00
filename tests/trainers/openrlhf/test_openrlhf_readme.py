"""What the cluster trainer's README names is there, and its dry runs run."""

import re
import subprocess

import pytest

pytest.importorskip("tyro", reason="the command line needs the train extra")

from tests.readme_commands import blocks, commands
from tests.trainers.openrlhf.recipe_runs import ROOT, environment
from trainers.openrlhf.checks import KNOWN

FOLDER = ROOT / "trainers" / "openrlhf"
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
RUN = [line for language, block in blocks(TEXT) if language == "bash" for line in commands(block)]
OPENRLHF = {
    "actor.policy_loss_type",
    "vllm.enable_sleep",
    "ds.enable_sleep",
    "ds.zero_stage",
    "ds.adam_offload",
    "ref.offload",
}


def test_every_flag_that_is_named_exists():
    named = set(re.findall(r"--([a-z]+\.[a-z_.]*[a-z_])", TEXT))
    assert len(named) > 20
    assert named <= KNOWN | OPENRLHF | {"ray.address"}


def test_every_file_that_is_linked_exists_and_every_file_is_named():
    linked = [target for target in re.findall(r"\]\(([^)#:]+)\)", TEXT) if not target.startswith("http")]
    for target in linked:
        assert (FOLDER / target).exists(), target
    assert {file.name for file in FOLDER.glob("*.py")} - {"__init__.py"} <= set(linked)


def test_there_are_dry_runs_to_run():
    assert len(RUN) == 5
    assert all("--dry-run" in line for line in RUN)


@pytest.mark.slow
@pytest.mark.parametrize("line", RUN)
def test_a_dry_run_of_the_readme_runs(line, tmp_path):
    command = line.replace("trainers/openrlhf", str(FOLDER))
    ran = subprocess.run(
        ["bash", "-euc", command], env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "openrlhf.cli.train_ppo_ray" in ran.stdout
