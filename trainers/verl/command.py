"""``spyrl verl``: prepares a run's rows, and prints verl's own command for them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import tyro

from trainers.corpus import check_source
from trainers.verl.config import Config
from trainers.verl.job import check, prepare
from trainers.verl.launch import command


def main(argv: Sequence[str]) -> int:
    """Prepare self-play training with verl; the last line printed is the command that trains."""
    arguments = list(argv)
    dry_run = "--dry-run" in arguments
    config = tyro.cli(
        Config,
        args=[argument for argument in arguments if argument != "--dry-run"],
        prog="spyrl verl",
        description="Prepare training by 'Who is the spy?' with verl 0.9.1, and print verl's command. --dry-run writes nothing.",
        config=(tyro.conf.AvoidSubcommands,),
        use_underscores=True,
    )
    folder = Path(config.ckpt.output_dir).resolve()
    if dry_run:
        check(config, folder)
        check_source(config.game.task, config.data.documents, config.data.input_key)
    else:
        prepare(config, folder, print)
        print(f"rows: {folder / 'rows'}")
    print(shlex.join(command(config, folder)))
    return 0
