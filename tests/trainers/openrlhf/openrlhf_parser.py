"""OpenRLHF's own reading of its command line, with all its assertions, and nothing started."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

MODULE = "openrlhf.cli.train_ppo_ray"


class Read:
    """What a command line came to: OpenRLHF's ``args``, and every flag that its parser has."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Run the block under ``if __name__ == "__main__"`` with ``train`` replaced; the file's imports aren't needed."""
        file = Path(importlib.util.find_spec("openrlhf").origin).parent / "cli" / "train_ppo_ray.py"
        tree = ast.parse(file.read_text(encoding="utf-8"))
        (main,) = [node for node in tree.body if isinstance(node, ast.If)]
        self.args: Any = None
        names = {"argparse": self._recording(), "os": os, "datetime": datetime, "train": self._take}
        with patch.object(sys, "argv", [MODULE, *arguments]):
            exec(compile(ast.Module(main.body, []), str(file), "exec"), names)

    def _take(self, args: Any) -> None:
        self.args = args

    def _recording(self) -> Any:
        read = self

        class Parser(argparse.ArgumentParser):
            def parse_args(self, *given: Any) -> argparse.Namespace:
                read.flags = {
                    option[2:] for action in self._actions for option in action.option_strings if option[:2] == "--"
                }
                return super().parse_args(*given)

        class Module:
            ArgumentParser = Parser

        return Module


def arguments_in(shown: str) -> list[str]:
    """OpenRLHF's arguments in a command as ``spyrl openrlhf --dry-run`` prints it."""
    import shlex

    lines = [line for line in shown.splitlines() if not line.startswith("#")]
    words = shlex.split("\n".join(lines).replace("\\\n", " "))
    return words[words.index(MODULE) + 1 :]


def told(*flags: str) -> list[str]:
    """OpenRLHF's arguments as ``spyrl openrlhf`` makes them from its flags, for one GPU."""
    from trainers.openrlhf.command import parsed
    from trainers.openrlhf.job import Job
    from trainers.openrlhf.launch import openrlhf_arguments

    config, passed, _ = parsed(["--ckpt.output_dir", "run", "--actor.num_gpus_per_node", "1", *flags])
    return openrlhf_arguments(config, Job.of(config).paths("model"), passed, None)
