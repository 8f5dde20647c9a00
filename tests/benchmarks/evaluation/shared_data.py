"""The local items that tests may read and the repository doesn't hold: a folder beside it, or ``SPYRL_DATA``."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[3].parent / "shared" / "data"


def shared_data(name: str) -> Path:
    """A file of the local items; the test is skipped where there is none."""
    folder = Path(os.environ.get("SPYRL_DATA") or BESIDE)
    if not (file := folder / name).is_file():
        pytest.skip(f"needs {name} in {folder}; SPYRL_DATA names another folder")
    return file
