"""``spyrl train``: from flags to a run, and its closing table."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from transformers.utils import logging as transformers_logging

from spy_env.render import ballot_text, game_text
from trainers import settings
from trainers.config import Config
from trainers.corpus import check_source
from trainers.disk import NotWrittenError
from trainers.embedded.display import Display
from trainers.embedded.lineup import check
from trainers.embedded.loop import Result, train
from trainers.embedded.policy import NotFiniteError
from trainers.rollout import GamesFailedError
from trainers.small_model import place_of


def main(argv: Sequence[str]) -> int:
    """Train a model by self-play on this machine."""
    arguments = list(argv)
    dry_run = "--dry-run" in arguments
    arguments = [argument for argument in arguments if argument != "--dry-run"]
    config = parse(arguments)
    console = Console()
    if dry_run:
        console.print_json(json.dumps(config.without_secrets()))
        console.print(_plan(config), highlight=False)
        return 0
    try:
        result = _trained(config, console)
    except (GamesFailedError, NotFiniteError, NotWrittenError) as error:
        print(
            f"spyrl train stopped: {error}\nThe last checkpoint, if there is one, is whole; go on with --ckpt.load_enable.",
            file=sys.stderr,
        )
        return 1
    _close(console, config, result)
    return 0


def _trained(config: Config, console: Console) -> Result:
    transformers_logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # peft's calls, not the user's
    with Display(console, config.all_iterations, config.train.max_minutes) as display:
        return train(config, _model_folder(config, display), display)


def parse(arguments: Sequence[str]) -> Config:
    """Return the config of a command line.

    Raises:
        ValueError: the file can't be read, or a value can't be used.
    """
    config, _ = settings.parse(
        arguments,
        "spyrl train",
        "Train a model by playing 'Who is the spy?' on one machine. --dry-run checks and prints the plan.",
    )
    check(config)
    return config


def _model_folder(config: Config, display: Display) -> str:
    """Return the model's folder. A hub's model is fetched whole and once, so that the run reads one revision throughout."""
    name = place_of(config.actor.model_name_or_path, display.say)
    return name if Path(name).is_dir() else _fetched(name)


def _fetched(hub_id: str) -> str:
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(hub_id, allow_patterns=["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"])
    except (OSError, ValueError) as error:
        raise ValueError(f"no model at {hub_id!r} ({error}); give a transformers folder or a hub id") from error


def _plan(config: Config) -> str:
    """Describe the run. The task and a local corpus are checked.

    Raises:
        ValueError: one of them isn't there or can't be read.
    """
    check_source(config.game.task, config.data.documents, config.data.input_key)
    games, players = config.games_per_iteration, config.game.players
    opponents = "".join(f", {role} played by {player}" for role, player in config.opponent_of.items())
    return (
        f"{config.train.iterations} iterations of {games} games with {players} players ({config.game.task}, voters "
        f"{config.game.voters}, schedule {config.algo.schedule}{opponents}); results in {config.ckpt.output_dir}"
    )


def _close(console: Console, config: Config, result: Result) -> None:
    if result.example_before:
        console.print("\nOne deal before training:\n", style="bold")
        console.print(ballot_text(result.example_before), markup=False, highlight=False, soft_wrap=True)
    if result.example:
        after = "The same deal after it" if result.example_before else "One game"
        console.print(f"\n{after}, in full:\n", style="bold")
        console.print(
            game_text(result.example, reveal=True, rules=config.game.reward_rules),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if result.compared.measures:
        chance = f"chance is 1/{config.game.players} = {1 / config.game.players:.3f} where every vote names a player"
        if config.eval.opponent:
            chance += f"; lines that begin with 'learner' are against {config.eval.opponent}"
        table = Table(
            *("", "before", "after", "change"),
            title=f"The same {result.deals} held-out deals before and after; changes are paired by deal, 95 % intervals",
            caption=f"{chance}; all measures are in final/README.md",
        )
        for row in result.compared.changed:
            table.add_row(*row)
        console.print(table)
        console.print(result.compared.sentence, style="bold", highlight=False, soft_wrap=True)
    trained = ", ".join(f"{count} of {stage}" for stage, count in result.stages.items()) or "none"
    console.print(f"iterations: {trained}", highlight=False)
    console.print(f"base weights SHA-256: {result.facts['weights_sha256']}", highlight=False)
    for what, path in {
        "run": result.folder,
        "all games": result.folder / "games",
        "trained model": result.folder / "final",
    }.items():
        console.print(f"{what}: {path}", highlight=False, soft_wrap=True)
    console.print(f"look at the games: spyrl replay {result.folder}", highlight=False, soft_wrap=True)
