"""What the README of TRL's trainer shows and names is there: its settings are taken, its files exist."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the checks of settings need the train extra")

from tests.readme_commands import blocks
from tests.trainers.trl.test_trl_settings import args
from trainers.config import Data, GameConfig
from trainers.trl import config
from trainers.trl.config import Games, check_args

FOLDER = Path(config.__file__).parent
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
((_, SHOWN),) = blocks(TEXT)


def test_every_file_that_is_linked_exists_and_every_file_is_named():
    linked = [target for target in re.findall(r"\]\(([^)#:]+)\)", TEXT) if not target.startswith("http")]
    for target in linked:
        assert (FOLDER / target).exists(), target
    assert {file.name for file in FOLDER.glob("*.py")} - {"__init__.py"} <= set(linked)


def test_the_settings_that_are_shown_are_taken():
    given = dict(re.findall(r"^    (\w+)=([\w.]+),", SHOWN, re.MULTILINE))
    values = {name: eval(value) for name, value in given.items()}
    parts, rows = values["gradient_accumulation_steps"], values["per_device_train_batch_size"]
    values |= {"steps_per_generation": parts, "generation_batch_size": parts * rows}
    games = eval(
        re.search(r"^games = (.*)$", SHOWN, re.MULTILINE)[1], {"Games": Games, "GameConfig": GameConfig, "Data": Data}
    )
    check_args(args(**values), games)
    assert len(given) == 9
    assert values["num_generations"] == games.rows_a_game


@pytest.mark.trl
def test_what_is_shown_is_spelled_as_trl_spells_it():
    pytest.importorskip("trl", reason="the settings are its")
    from trl import GRPOConfig

    known = GRPOConfig.__dataclass_fields__
    assert [name for name in re.findall(r"^    (\w+)=", SHOWN, re.MULTILINE) if name not in known] == []
    compile(SHOWN, "README.md", "exec")
