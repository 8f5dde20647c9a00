"""The documents as verifiers' tasks. A task is a deal: the same document, spy and hidden span in every rollout of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import verifiers.v1 as vf
from pydantic import Field

from spy_env import Document, load_task, read_documents, shipped_documents


class SpyData(vf.TaskData):
    """A document to play on. ``seed`` deals the game, so rollouts of a task compare seat with seat."""

    game: str
    document: str  # empty in the traces of seats, whose prompts and record hold what was played
    seed: str


class SpyTask(vf.Task[SpyData]):
    """Nothing is scored here: what a reply earns depends on the other seats', so the environment pays."""

    @property
    def key(self) -> str:
        """The deal, and whose prompt it is."""
        return f"{self.data.seed}/{self.hash[:16]}"


class SpyTasksetConfig(vf.TasksetConfig):
    """Which documents are played."""

    game: str = "summarization"
    """What the players do: a shipped task, my_task.py, or module:TASK."""
    documents: str | None = None
    """.jsonl, a folder of text files, or id:config:split:column; the task's own where it isn't given."""
    input_key: str = "text"
    """The field of a JSONL row that holds the text."""
    seed: int = 0
    """Of the deals."""
    max_documents: int = Field(10_000, ge=1)
    """Only the first so many."""


class SpyTaskset(vf.Taskset[SpyTask, SpyTasksetConfig]):
    """One task a document."""

    def load(self) -> Iterator[SpyTask]:
        """The playable documents, in order.

        Raises:
            ValueError: no such task, or the documents can't be read.
        """
        config = self.config
        task = load_task(config.game)
        found = read_documents(config.documents, config.input_key) if config.documents else shipped_documents(task)
        for document in islice(found, config.max_documents):
            yield SpyTask(self._data(document), config.task)

    def _data(self, document: Document) -> SpyData:
        return SpyData(
            id=document.id,
            name=document.id,
            game=self.config.game,
            document=document.text,
            seed=f"{self.config.seed}/{document.id}",
        )
