"""The command that starts OpenRLHF: the config's flags, what it is always told, and what passes through. Pure."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trainers.openrlhf.config import Config, filled_in
from trainers.openrlhf.flags import TOLD, UNLESS_SAID, Passed

MODULE = "openrlhf.cli.train_ppo_ray"
OURS_ALONE = (  # flags and groups that OpenRLHF isn't told
    *("game", "ray", "train.iterations", "data.documents", "data.input_key", "data.max_samples", "eval.games"),
    *("rollout.performing", "rollout.detection", "rollout.chat_template_kwargs", "rollout.deadline_s"),
    *("ckpt.output_dir", "actor.model_name_or_path", "logger"),
)
KEY = "logger.wandb.key"


class Places(NamedTuple):
    """Where the trainer finds things, as the machines that train see them."""

    model: str
    train: str
    evaluation: str | None
    agent: str
    checkpoints: str
    final: str


def flags_of(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every single setting of nested dataclasses by its dotted flag."""
    for field in dataclasses.fields(config):
        name, value = f"{prefix}{field.name}", getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from flags_of(value, f"{name}.")
        else:
            yield name, value


def openrlhf_arguments(config: Config, places: Places, passed: Iterable[Passed], wandb_key: str | None) -> list[str]:
    """All arguments of OpenRLHF's command."""
    passed = [flag for flag in passed if flag.flag not in TOLD]  # they say the same
    said = {flag.flag for flag in passed}
    known: list[tuple[str, Any]] = [
        ("actor.model_name_or_path", places.model),
        ("data.prompt_dataset", places.train),
        ("eval.dataset", places.evaluation),
        ("train.agent_func_path", places.agent),
        ("ckpt.path", places.checkpoints),
        ("ckpt.output_dir", places.final),
        *((flag, value) for flag, value in flags_of(filled_in(config)) if _for_openrlhf(flag, config)),
        *_logging(config, wandb_key),
        *((flag, values or True) for flag, (values, _) in TOLD.items()),
        *((flag, values) for flag, values in UNLESS_SAID.items() if flag not in said),
        *((flag, values or True) for flag, values in passed),
    ]
    return [word for flag, value in known for word in _words(flag, value)]


def _for_openrlhf(flag: str, config: Config) -> bool:
    if flag.startswith("eval.") and not config.eval.games:
        return False
    return not any(flag == own or flag.startswith(f"{own}.") for own in OURS_ALONE)


def _logging(config: Config, wandb_key: str | None) -> Iterator[tuple[str, Any]]:
    folder, wandb = config.logger.tensorboard_dir, config.logger.wandb
    yield "logger.tensorboard_dir", folder and str(Path(folder).resolve())
    yield "logger.wandb.run_name", wandb.run_name  # also the folder within TensorBoard's
    if wandb.project:
        yield KEY, wandb_key
        yield from ((f"logger.wandb.{name}", getattr(wandb, name)) for name in ("project", "org", "group"))


def _words(flag: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{flag}"]
    values = value if isinstance(value, tuple) else (value,)
    return [f"--{flag}", *map(str, values)]


def command_here(arguments: Sequence[str]) -> list[str]:
    """OpenRLHF's command on this machine, or in the Ray cluster that this machine is part of."""
    return [sys.executable, "-m", MODULE, *arguments]


def command_of_job(arguments: Sequence[str], address: str, folder: Path) -> list[str]:
    """The same as a job of the cluster at ``address``; ``folder`` travels with it and is where it runs.

    Raises:
        ValueError: an argument that Ray wouldn't hand on as it is (it quotes for Windows, and a shell reads it).
    """
    for word in arguments:
        if shlex.quote(word) != word:
            raise ValueError(
                f"{word!r} can't travel with a Ray job: choose a name without spaces and special characters"
            )
    submit = ["ray", "job", "submit", "--address", address, "--working-dir", str(folder)]
    return [*submit, "--", "python3", "-m", MODULE, *arguments]


def shown(command: Sequence[str]) -> str:
    """A command for a shell, one flag a line; a secret is named and not shown."""
    lines: list[list[str]] = [[]]
    for word in command:
        if word.startswith("--") and len(word) > 2:
            lines.append([])
        elif lines[-1][:1] == [f"--{KEY}"]:
            lines[-1].append('"$WANDB_API_KEY"')
            continue
        lines[-1].append(shlex.quote(word))
    return " \\\n  ".join(" ".join(line) for line in lines)
