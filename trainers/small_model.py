"""The first run's small model by its name; ``trainers.first_run``, which fetches it, is loaded only where it is named."""

from __future__ import annotations

from collections.abc import Callable

SMALL_MODEL = "smollm2-135m"  # its name in flags


def place_of(name: str, say: Callable[[str], None] = print) -> str:
    """Return the folder behind the small model's name, fetched if it isn't here yet; any other name as it is."""
    if name != SMALL_MODEL:
        return name
    from trainers.first_run.downloads import small_model

    return str(small_model(say))


def hub_name(name: str) -> str:
    """Return the hub's id for the small model's name; any other name as it is."""
    if name != SMALL_MODEL:
        return name
    from trainers.first_run.downloads import HUB_MODEL

    return HUB_MODEL
