"""The form of a task, and how a name, a file or ``module:TASK`` becomes one."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from spy_env.documents import Document, read_documents

SHIPPED = ("summarization", "creative_writing", "math_reasoning")


@dataclass(frozen=True, slots=True)
class Task:
    """The instructions for performers and detectors, and the defaults of a game of this task.

    ``perform`` may hold ``{words}``, the length asked for. The performance is what follows the last line that begins
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
    marker_line: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.marker.strip():
            raise ValueError(f"task {self.name!r} needs an answer marker, such as 'Summary:'")
        try:
            self.perform.format(words=self.words)
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(
                f"task {self.name!r}: perform can't be filled in ({error!r}); only {{words}} may be used"
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
    if name in SHIPPED:
        found = importlib.import_module(f"spy_env.tasks.{name}").TASK
    elif name.endswith(".py"):
        found = _from_file(Path(name))
    elif ":" in name:
        found = _from_module(*name.split(":", 1))
    else:
        raise ValueError(f"no task named {name!r}; choose one of {list(SHIPPED)}, a file my_task.py, or module:TASK")
    if not isinstance(found, Task):
        raise ValueError(f"{name}: TASK is a {type(found).__name__}, not a spy_env.tasks.Task")
    return found


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


def _from_file(path: Path) -> object:
    if not path.is_file():
        raise ValueError(f"no task file at {str(path)!r}")
    spec = importlib.util.spec_from_file_location(f"spy_task_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{str(path)!r} can't be imported as Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return _attribute(module, "TASK", str(path))


def _from_module(module: str, attribute: str) -> object:
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the module exists, and one that it imports doesn't
        raise ValueError(
            f"no module {module!r} to take the task {attribute!r} from; is it installed or on PYTHONPATH?"
        ) from error
    return _attribute(imported, attribute, module)


def _attribute(module: object, name: str, where: str) -> object:
    if not hasattr(module, name):
        raise ValueError(f"{where} defines no {name}; a task file ends with TASK = Task(...)")
    return getattr(module, name)
