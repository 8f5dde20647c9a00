"""A run's documents: some held out for evaluation, the others without end, from any place in the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

from spy_env import Document, load_task, read_documents
from spy_env.documents import Skipped

Say = Callable[[str], None]
ABSTRACTS = "aclsum"  # the documents of the first run


class Corpus:
    """The first ``held_out`` playable documents are never trained on; the others come in order, again and again."""

    def __init__(
        self,
        task: str,
        source: str | None,
        input_key: str = "text",
        held_out: int = 0,
        limit: int | None = None,
        say: Say = print,
    ) -> None:
        """Read from ``source``, or the task's own documents where it is None. Files are read through once, to be checked.

        Raises:
            ValueError: the corpus can't be read, or holds no document beyond those held out.
        """
        self.source, self._input_key, self._limit, self._say = _located(task, source, say), input_key, limit, say
        skipped = Skipped()
        beginning = list(islice(self._read(skipped), held_out + 1))
        if len(beginning) <= held_out:
            raise ValueError(
                f"{self.source} has {len(beginning)} playable documents, and {held_out} are held out for evaluation; "
                "give more documents or a smaller --eval.games"
            )
        self.held_out = beginning[:held_out]
        self._count: int | None = None  # a hub's stream has no end worth waiting for
        if Path(self.source).exists():
            skipped = Skipped()
            self._count = sum(1 for _ in self._read(skipped)) - held_out
            left_out = f", {skipped.count} too short to play left out ({skipped})" if skipped.count else ""
            say(f"documents: {self._count} to train on, {held_out} held out{left_out}")

    def _read(self, skipped: Skipped) -> Iterator[Document]:
        return islice(read_documents(self.source, self._input_key, skipped), self._limit)

    def training(self, consumed: int = 0) -> Iterator[Document]:
        """The documents to train on, from the one after ``consumed``, for ever.

        Rounds that are over aren't read again where the documents are counted; a hub's stream is read up to the place.
        """
        rounds = consumed // self._count if self._count else 0
        passed = rounds * (self._count or 0)
        if consumed > passed and not self._count:
            self._say(f"reading past the first {consumed} documents of {self.source}")
        for number in count(rounds):
            if number and passed >= consumed:
                self._say(f"all documents have been played {_times(number)}; beginning again with the first")
            for document in islice(self._read(Skipped()), len(self.held_out), None):
                passed += 1
                if passed > consumed:
                    yield document


def check_source(task: str, source: str | None, input_key: str) -> None:
    """Whether a corpus can be read, as far as that can be told without a hub and without a download.

    Raises:
        ValueError: it isn't there, or its first document can't be read.
    """
    load_task(task)
    if source and source != ABSTRACTS and (Path(source).exists() or source.count(":") != 3):
        next(read_documents(source, input_key))


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _located(task: str, source: str | None, say: Say) -> str:
    if source == ABSTRACTS:
        from trainers.first_run.downloads import paper_abstracts

        return str(paper_abstracts(say))
    if source is not None:
        return source
    own = load_task(task).documents
    if own is None:
        raise ValueError(f"task {task!r} ships no documents; give some with --data.documents")
    return str(own)
