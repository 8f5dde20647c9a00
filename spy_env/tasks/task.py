"""The form of a task, and how a name, a file or ``module:TASK`` becomes one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from spy_env.documents import Document, read_documents
from spy_env.named import load_named

SHIPPED = ("summarization", "creative_writing", "math_reasoning", "key_points")


@dataclass(frozen=True, slots=True)
class Task:
    """The instructions for performers and detectors, and the defaults of a game of this task.

    ``perform`` and ``brief``, its one sentence for prompts that small models follow (default: ``perform``), may hold
    ``{words}``, the length asked for. The performance is what follows the last line that begins
    with ``marker``. ``document_words`` and ``mask_fraction`` are the task's defaults for the rules of a game.
    """

    name: str
    perform: str
    detect: str
    marker: str
    words: int
    document_words: int
    mask_fraction: float
    documents: Path | None = None  # sample documents, a .jsonl file
    brief: str = ""
    marker_line: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.marker.strip():
            raise ValueError(f"task {self.name!r} needs an answer marker, such as 'Summary:'")
        for name in ("perform", "brief"):
            try:
                getattr(self, name).format(words=self.words)
            except (KeyError, IndexError, ValueError) as error:
                raise ValueError(
                    f"task {self.name!r}: {name} can't be filled in ({error!r}); only {{words}} may be used"
                ) from error
        word = re.escape(self.marker.strip().rstrip(":"))
        bold = rf"([*_]+){word}(?:\1[ \t]*:|[ \t]*:(?:[ \t]*\1)?)"  # with the colon or without
        named = rf"{word}[ \t]*:|{bold}"
        line = rf"^[ \t]*(?:#+[ \t]*)?(?:{named})[ \t]*"
        object.__setattr__(self, "marker_line", re.compile(line, re.IGNORECASE | re.MULTILINE))


def task_names() -> tuple[str, ...]:
    """Return the names of the tasks that come with the package."""
    return SHIPPED


@cache
def load_task(name: str) -> Task:
    """Load a shipped task by name, ``path/to/my_task.py``, or ``module:ATTRIBUTE``.

    Raises:
        ValueError: nothing of that name, or what is there defines no ``Task``.
    """
    return load_named(name, Task, "task", SHIPPED)


def shipped_documents(task: Task) -> Iterator[Document]:
    """Yield the sample documents that come with a task.

    Raises:
        ValueError: the task has none.
    """
    if task.documents is None:
        raise ValueError(
            f"task {task.name!r} ships no documents; give some, for example with --data.documents FILE.jsonl"
        )
    return read_documents(task.documents)
