"""What the trainer's README names is there: flags, files, and a sweep that can be read."""

import dataclasses
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the config of a training needs the train extra")

from trainers.config import Config
from trainers.embedded import loop
from trainers.embedded.sweep import read_sweep

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


def test_the_sweep_that_is_shown_can_be_read(tmp_path):
    (tmp_path / "sweep.toml").write_text(re.search(r"```toml\n(.*?)```", TEXT, re.DOTALL)[1], encoding="utf-8")
    sweep = read_sweep(str(tmp_path / "sweep.toml"), Config())
    assert [run.config.algo.rae for run in sweep.runs[:3]] == [True, False, True]
    assert len(sweep.runs) == 9
