"""Read a config from a file: TOML or JSON, or one that ships with the trainer."""

from __future__ import annotations

from pathlib import Path

from trainers.embedded.config import Config
from trainers.settings import from_dict, read_settings


def read_config(path: str) -> Config:
    """A config from a TOML or JSON file, or a shipped one by name (``first_run``). What it leaves out has its default.

    Raises:
        ValueError: no such file, not TOML or JSON, a key that isn't known, or a value of the wrong kind.
    """
    shipped = {file.stem: file for file in (Path(__file__).parents[1] / "first_run").glob("*.toml")}
    file = Path(path) if Path(path).is_file() else shipped.get(path, Path(path))
    if not file.is_file():
        raise ValueError(f"no config at {path!r}; give a .toml or .json file, or the shipped 'first_run'")
    row = read_settings(file)
    return from_dict(Config, row["config"] if isinstance(row, dict) and "config" in row else row, str(file))
