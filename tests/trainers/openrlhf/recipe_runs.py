"""Run the recipes of a cluster as a user does, with a ``spyrl`` that is this checkout's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
RECIPES = ROOT / "trainers" / "openrlhf" / "recipes"
SPYRL = f"""#!{sys.executable}
import sys, tomllib
from importlib import import_module
from pathlib import Path
project = tomllib.loads(Path({str(ROOT / "pyproject.toml")!r}).read_text())["project"]
module, name = project["entry-points"]["spyrl.commands"][sys.argv[1]].split(":")
sys.exit(getattr(import_module(module), name)(sys.argv[2:]))
"""


def scripts(folder: Path) -> Path:
    """A folder for PATH with the command in it."""
    file = folder / "bin" / "spyrl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SPYRL)
        file.chmod(0o755)
    return file.parent


def environment(folder: Path) -> dict[str, str]:
    """Where ``spyrl`` is this checkout's."""
    path = f"{scripts(folder)}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "500"}


def dry_run(folder: Path, recipe: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a recipe would do, run in ``folder``."""
    command = ["bash", str(RECIPES / f"{recipe}.sh"), "--dry-run", *arguments]
    return subprocess.run(
        command, env={**environment(folder), **variables}, cwd=folder, capture_output=True, text=True, timeout=120
    )
