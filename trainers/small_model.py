"""The first run's small model by name, without the code that fetches it (``trainers.first_run``)."""

from __future__ import annotations

from collections.abc import Callable

SMALL_MODEL = "smollm2-135m"  # its name in flags
HUB_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"


def model_place(name: str, say: Callable[[str], None] = print) -> str:
    """Return the small model's folder for its name, fetched if it isn't here yet; any other name as it is."""
    if name != SMALL_MODEL:
        return name
    from trainers.first_run.downloads import small_model

    return str(small_model(say))
