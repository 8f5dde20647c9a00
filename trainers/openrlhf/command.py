"""``spyrl openrlhf``: prepares a run, and starts OpenRLHF's own trainer on it, here or as a job of a Ray cluster."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import tyro

from trainers.corpus import check_source
from trainers.openrlhf.config import Config
from trainers.openrlhf.flags import Passed, check_beside, check_passed, passed_flags, without_settings_of_spyrl_train
from trainers.openrlhf.job import TRAINER, Job
from trainers.openrlhf.launch import command_here, command_of_job, flags_of, openrlhf_arguments, shown
from trainers.openrlhf.versions import check_versions
from trainers.settings import from_dict, read_settings, taken
from trainers.small_model import SMALL_MODEL, hub_name, place_of


def main(argv: Sequence[str]) -> int:
    """Train a model by self-play with OpenRLHF."""
    arguments = list(argv)
    dry_run = "--dry-run" in arguments
    config, passed = parse([argument for argument in arguments if argument != "--dry-run"])
    job = Job.of(config)
    key = wandb_key(config)
    if dry_run:
        job.check()
        check_source(config.game.task, config.data.documents, config.data.input_key)
        print(plan(job))
        print(shown(command_of(job, model_of(config, fetch=False), passed, key)))
        return 0
    if config.ray.address is None:
        check_versions()
    model = model_of(config, fetch=True)
    command = command_of(job, model, passed, key)
    job.prepare(model, shown(command), passed, print)
    print(plan(job), flush=True)
    return start(command)


def parse(arguments: Sequence[str]) -> tuple[Config, list[Passed]]:
    """The config (defaults, then ``--config FILE``, then flags), and the flags that pass through to OpenRLHF.

    Raises:
        ValueError: a value can't be used, or a flag breaks the run.
    """
    file, rest = taken(arguments, "--config", "a TOML or JSON file")
    config, others = tyro.cli(
        Config,
        args=rest,
        default=Config() if file is None else read_config(file),
        prog="spyrl openrlhf",
        description="Train a model by playing 'Who is the spy?' with OpenRLHF (Ray, vLLM, DeepSpeed). --config FILE sets defaults "
        "(TOML or JSON, also one of spyrl train); --dry-run prints the command and writes nothing. Flags that aren't named here go "
        "to OpenRLHF.",
        config=(tyro.conf.AvoidSubcommands,),
        use_underscores=True,
        return_unknown_args=True,
    )
    passed = beside(kept_flags(file), passed_flags(others))
    check_passed(passed, [flag for flag, _ in flags_of(config)])
    check_beside(passed, config.train.colocate_all, config.train.async_enable)
    return config, passed


def read_config(path: str) -> Config:
    """A config from a TOML or JSON file: this trainer's, or one of ``spyrl train``.

    Raises:
        ValueError: no such file, not TOML or JSON, or it says what can't be done here.
    """
    if not Path(path).is_file():
        raise ValueError(f"no config at {path!r}; give a .toml or .json file")
    said = read_settings(Path(path))
    row = said["config"] if isinstance(said, dict) and "config" in said else said
    if isinstance(row, dict) and said.get("trainer") != TRAINER:
        row = without_settings_of_spyrl_train(row, path)
    return from_dict(Config, row, path)


def kept_flags(path: str | None) -> list[Passed]:
    """The flags that passed through to OpenRLHF in the run whose ``config.json`` is read; none of any other file."""
    said = read_settings(Path(path)) if path is not None else {}
    kept = said.get("passed", {}) if isinstance(said, dict) and said.get("trainer") == TRAINER else {}
    return [Passed(flag, tuple(values)) for flag, values in kept.items()]


def beside(kept: Sequence[Passed], said: Sequence[Passed]) -> list[Passed]:
    """What is said now, and what was said before and isn't now."""
    now = {flag.flag for flag in said}
    return [*(flag for flag in kept if flag.flag not in now), *said]


def model_of(config: Config, fetch: bool) -> str:
    """The model as OpenRLHF is told it.

    Raises:
        ValueError: the small model was asked for in a cluster, whose nodes don't have it.
    """
    name = config.actor.model_name_or_path
    if name == SMALL_MODEL:
        if config.ray.address is not None:
            raise ValueError(
                f"--actor.model_name_or_path is {name!r}, which is kept on this machine; give {hub_name(name)}, or a folder that "
                "every node sees"
            )
        from trainers.first_run.downloads import small_folder

        return place_of(name) if fetch else str(small_folder())
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def wandb_key(config: Config) -> str | None:
    """The key without which OpenRLHF doesn't log to Weights & Biases.

    Raises:
        ValueError: a project is named, and there is no key.
    """
    key = config.logger.wandb.key or os.environ.get("WANDB_API_KEY")
    if config.logger.wandb.project and not key:
        raise ValueError("--logger.wandb.project is given, and no key: set WANDB_API_KEY, or give --logger.wandb.key")
    return key


def command_of(job: Job, model: str, passed: Sequence[Passed], key: str | None) -> list[str]:
    """The whole command."""
    arguments = openrlhf_arguments(job.config, job.places(model), passed, key)
    if job.config.ray.address is None:
        return command_here(arguments)
    return command_of_job(arguments, job.config.ray.address, job.files)


def plan(job: Job) -> str:
    """What will be done, in a few lines."""
    config = job.config
    games = config.samples_per_iteration // config.game.players
    held_out = f", {config.eval.games} held out" if config.eval.games else ""
    return (
        f"# {config.train.iterations} iterations of up to {games} games with {config.game.players} players "
        f"({config.game.task}, voters {config.game.voters}, schedule {config.game.schedule})\n"
        f"# {config.rows_per_episode} rows in {job.rows}{held_out}; results in {job.folder}"
    )


def start(command: Sequence[str]) -> int:
    """Become the command, so that signals and its exit status are its own.

    Raises:
        ValueError: it isn't installed.
    """
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    program = shutil.which(command[0], path=scripts)
    if program is None:
        raise ValueError(f"no {command[0]} here; install 'spy-env[openrlhf]'")
    sys.stdout.flush()
    os.execv(program, list(command))
