"""``spyrl openrlhf``: prepares a run, and starts OpenRLHF's own trainer on it, here or as a job of a Ray cluster."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from trainers.cluster.preparation import ROWS, check_run, model_of
from trainers.config import Config, Wandb
from trainers.openrlhf.checks import check_beside, check_config, check_passed, rows_per_episode
from trainers.openrlhf.job import TRAINER, Job
from trainers.openrlhf.launch import Passed, command_here, command_of_job, openrlhf_arguments, passed_flags, shown
from trainers.openrlhf.versions import check_versions
from trainers.settings import parse, read_file, taken

DESCRIPTION = (
    "Train a model by playing 'Who is the spy?' with OpenRLHF (Ray, vLLM, DeepSpeed). --ray.address http://HEAD:8265 submits a "
    "job there; --dry-run prints the command and writes nothing. Flags that aren't named here go to OpenRLHF."
)


def main(argv: Sequence[str]) -> int:
    """Train a model by self-play with OpenRLHF."""
    arguments = [argument for argument in argv if argument != "--dry-run"]
    config, passed, address = parsed(arguments)
    job = Job.of(config, address)
    dry_run = len(arguments) < len(argv)
    if not dry_run and address is None:
        check_versions()
    model = model_of(config.actor.model_name_or_path, fetch=not dry_run, one_machine=address is None)
    command = command_of(job, model, passed, wandb_key(config.logger.wandb))
    if dry_run:
        check_run(config, job.folder, TRAINER)
        print(plan(job), shown(command), sep="\n")
        return 0
    job.prepare(model, shown(command), passed, print)
    print(plan(job), flush=True)
    return start(command)


def parsed(arguments: Sequence[str]) -> tuple[Config, list[Passed], str | None]:
    """Return the config, the flags that pass through to OpenRLHF, and the address of a cluster to submit the job to.

    Raises:
        ValueError: a value can't be used, or a flag breaks the run.
    """
    address, rest = taken(arguments, "--ray.address", "the address of the dashboard, such as http://HEAD:8265")
    if address is not None and not address.startswith(("http://", "https://")):
        raise ValueError(f"--ray.address is {address!r}; give the address of the dashboard, such as http://HEAD:8265")
    config, others = parse(rest, "spyrl openrlhf", DESCRIPTION, others=True)
    now = passed_flags(others)
    names = {flag.flag for flag in now}
    passed = [*(flag for flag in kept_flags(rest) if flag.flag not in names), *now]
    check_config(config)
    check_passed(passed)
    check_beside(passed, config)
    return config, passed, address


def kept_flags(arguments: Sequence[str]) -> list[Passed]:
    """Return the flags that passed through in the run whose ``config.json`` is read; none of any other file."""
    file, _ = taken(arguments, "--config", "a file")
    content = read_file(Path(file)) if file is not None and Path(file).is_file() else {}
    return [Passed(flag, tuple(values)) for flag, values in content.get("passed", {}).items()]


def wandb_key(wandb: Wandb) -> str | None:
    """Return the key without which OpenRLHF doesn't log to Weights & Biases.

    Raises:
        ValueError: a project is named, and there is no key.
    """
    key = wandb.key or os.environ.get("WANDB_API_KEY")
    if wandb.project and not key:
        raise ValueError("--logger.wandb.project is given, and no key: set WANDB_API_KEY, or give --logger.wandb.key")
    return key


def command_of(job: Job, model: str, passed: Sequence[Passed], key: str | None) -> list[str]:
    """Return the whole command."""
    arguments = openrlhf_arguments(job.config, job.paths(model), passed, key)
    return command_of_job(arguments, job.address, job.files) if job.address else command_here(arguments)


def plan(job: Job) -> str:
    """Describe the run in a few lines."""
    config, game = job.config, job.config.game
    held_out = f", {config.eval.games} held out" if config.eval.games else ""
    return (
        f"# {config.train.iterations} iterations of up to {config.games_per_iteration} games with {game.players} players "
        f"({game.task}, voters {game.voters}, schedule {config.algo.schedule})\n"
        f"# {rows_per_episode(config)} rows in {job.folder / ROWS}{held_out}; results in {job.folder}"
    )


def start(command: Sequence[str]) -> int:
    """Become the command, so that signals and its exit status are its own.

    Raises:
        ValueError: it isn't installed.
    """
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    program = shutil.which(command[0], path=scripts)
    if program is None:
        raise ValueError(f"no {command[0]} here; in the checkout, run pip install -e '.[openrlhf]'")
    sys.stdout.flush()
    os.execv(program, list(command))
