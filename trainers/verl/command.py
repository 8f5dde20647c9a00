"""``spyrl verl``: prepares a run's rows, and prints verl's own command for them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from trainers.cluster.preparation import (
    ROWS,
    RowFormat,
    check_folder,
    check_run,
    check_settings,
    model_of,
    run_settings,
    write_config,
    write_rows,
)
from trainers.cluster.prompt_rows import RunSettings, from_json, to_json
from trainers.config import Config
from trainers.corpus import Say
from trainers.settings import parse
from trainers.verl.launch import HANDED_ON, IN_ANOTHER_FORM, REFUSED_SETTINGS, command

TRAINER = "verl"
FORMAT = RowFormat(  # a line is a chat whose only message is the row
    TRAINER,
    lambda row, number: {
        "prompt": [{"role": "user", "content": to_json(row)}],
        "data_source": f"spyrl_{row.split}",
        "reward_model": {"style": "rule", "ground_truth": ""},  # verl's validation reads it; the game is the rule
        "extra_info": {"index": number},
    },
    lambda line: from_json(line["prompt"][0]["content"]),
    in_order=True,
)


def main(argv: Sequence[str]) -> int:
    """Prepare self-play training with verl; the last line printed is the command that trains."""
    arguments = [argument for argument in argv if argument != "--dry-run"]
    dry_run = len(arguments) < len(argv)
    config, _ = parse(
        arguments,
        "spyrl verl",
        "Prepare training by 'Who is the spy?' with verl 0.9.1, and print verl's command. --dry-run writes nothing.",
    )
    check_config(config)
    folder = Path(config.ckpt.output_dir).resolve()
    model = model_of(config.actor.model_name_or_path, fetch=not dry_run, one_machine=config.actor.num_nodes == 1)
    words = command(config, folder, model)
    if dry_run:
        check_run(config, folder, TRAINER)
    else:
        prepare(config, folder, print)
        print(f"rows: {folder / ROWS}")
    print(shlex.join(words))
    return 0


def check_config(config: Config) -> None:
    """Refuse settings that verl can't follow.

    Raises:
        ValueError: with the flag, its value, and the way out.
    """
    check_settings(config, REFUSED_SETTINGS, (*HANDED_ON, *IN_ANOTHER_FORM))


def prepare(config: Config, folder: Path, say: Say) -> None:
    """Write the rows and the settings.

    Raises:
        ValueError: the corpus can't be read, or the run can't begin or go on.
    """
    check_folder(config, folder, TRAINER)
    write_rows(config, run_of(config, folder), config.train.iterations * config.rollout.batch_size, FORMAT, say)
    write_config(config, folder, TRAINER)


def run_of(config: Config, folder: Path) -> RunSettings:
    """Return the part of the rows that is the same for all."""
    task = config.game.task
    return run_settings(config, folder, str(Path(task).resolve()) if task.endswith(".py") else task)
