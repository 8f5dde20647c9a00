"""What an evaluation was asked to do, as every suite reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """One call of ``spyrl eval``. ``None`` and empty mean the suite's own default."""

    TASKS: ClassVar = ("summarization", "creative_writing")
    output: Path
    data: Path | None = None  # a folder of JSONL files instead of the hub
    limit: int | None = None  # items of each data set, or games of each task
    sets: tuple[str, ...] = ()  # only these data sets
    seed: int = 0
    samples: int = 16  # of each AIME problem (k)
    tasks: tuple[str, ...] = TASKS  # of the alignment study
    games: tuple[Path, ...] = ()  # saved games for the alignment study, instead of new ones
    say: Say = field(default=print, compare=False)

    def chosen(self, sets: tuple[str, ...]) -> tuple[str, ...]:
        """Which of a suite's data sets are wanted."""
        return tuple(name for name in sets if not self.sets or name in self.sets)


class Calls(NamedTuple):
    """What a suite would ask for: texts of each contestant, and questions to the judge."""

    texts: int
    questions: int
