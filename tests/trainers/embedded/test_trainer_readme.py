"""What the trainer's README names is there: flags, files, and a loop that trains what it says."""

import dataclasses
import re
import shlex
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the config of a training needs the train extra")

from trainers.config import Config
from trainers.embedded import loop

FOLDER = Path(loop.__file__).parent
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
NAMED = {flag.replace(".no_", ".") for flag in re.findall(r"--[a-z]+\.[a-z_.]*[a-z_]", TEXT)}


def flags_of(kind, prefix="--"):
    for field in dataclasses.fields(kind):
        value = getattr(kind, field.name)
        yield from (
            flags_of(value, f"{prefix}{field.name}.") if dataclasses.is_dataclass(value) else [f"{prefix}{field.name}"]
        )


def test_every_flag_that_is_named_exists():
    assert len(NAMED) > 20
    assert set(flags_of(Config())) >= NAMED


def test_every_switch_of_the_game_is_named():
    of_the_game = {flag for flag in flags_of(Config()) if flag.startswith("--game.")}
    lengths = {"--game.task", "--game.document_words", "--game.words"}  # no ablation
    assert of_the_game - lengths <= NAMED


def test_every_file_that_is_linked_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (FOLDER / target).exists(), target


def test_the_loop_that_is_shown_trains_every_setting_with_every_seed_and_begins_none_anew(tmp_path):
    pytest.importorskip("tyro", reason="the command reads its flags with it")
    from trainers.embedded.command import parse

    (tmp_path / "outputs/masks/0.2-seed_1/final").mkdir(parents=True)
    script = "spyrl() { echo $@; }\n" + re.search(r"```bash\n(for .*?)```", TEXT, re.DOTALL)[1]
    ran = subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    *lines, inspected = map(shlex.split, ran.stdout.splitlines())
    runs = [parse(line[1:]) for line in lines if line[0] == "train"]
    expected = {(share, seed) for share in (0.1, 0.2, 0.4) for seed in range(3)} - {(0.2, 1)}
    assert {(run.game.mask_fraction, run.train.seed) for run in runs} == expected
    assert len({run.ckpt.output_dir for run in runs}) == len(runs) == len(expected)
    assert inspected == ["inspect", "outputs/masks/0.2-seed_1"]
