"""A run's documents: some held out for evaluation, the others in an endless stream that can begin at any place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

from spy_env import Document, load_task, read_documents
from spy_env.documents import Skipped

Say = Callable[[str], None]
ABSTRACTS = "aclsum"  # the documents of the first run


class Corpus:
    """Playable documents: the first ``held_out`` are never trained on; the others come in order, round after round."""

    def __init__(
        self,
        task: str,
        source: str | None,
        input_key: str = "text",
        held_out: int = 0,
        limit: int | None = None,
        say: Say = print,
    ) -> None:
        """Read from ``source``, or the task's own documents if it is None. A file is read to its end, as a check.

        Raises:
            ValueError: the corpus can't be read, or holds no document beyond those held out.
        """
        self.source, self._input_key, self._limit, self._say = _source(task, source, say), input_key, limit, say
        beginning = list(islice(self._read(), held_out + 1))
        if len(beginning) <= held_out:
            raise ValueError(
                f"{self.source} has {len(beginning)} playable documents, and {held_out} are held out for evaluation; "
                "give more documents or a smaller --eval.games"
            )
        self.held_out = beginning[:held_out]
        self._count: int | None = None  # the end of a hub's stream is too far to wait for
        if Path(self.source).exists():
            skipped = Skipped()
            self._count = sum(1 for _ in self._read(skipped)) - held_out
            left_out = f", {skipped.count} too short to play left out ({skipped})" if skipped.count else ""
            say(f"documents: {self._count} to train on, {held_out} held out{left_out}")

    def _read(self, skipped: Skipped | None = None) -> Iterator[Document]:
        return islice(read_documents(self.source, self._input_key, skipped), self._limit)

    def training(self, consumed: int = 0) -> Iterator[Document]:
        """Yield the documents to train on, without end, after the first ``consumed``.

        Counted documents are read from the round that ``consumed`` ends in; a hub's stream is read from its beginning.
        """
        rounds, to_skip = divmod(consumed, self._count) if self._count else (0, consumed)
        if to_skip and not self._count:
            self._say(f"reading past the first {consumed} documents of {self.source}")
        for number in count(rounds + 1):
            if number > 1 and not to_skip:
                self._say(f"round {number} of the documents begins")
            for document in islice(self._read(), len(self.held_out), None):
                if to_skip:
                    to_skip -= 1
                else:
                    yield document


def check_source(task: str, source: str | None, input_key: str) -> None:
    """Read the first document of a corpus that needs neither a hub nor a download.

    Raises:
        ValueError: there is no such task or corpus, or its first document can't be read.
    """
    load_task(task)
    if source and source != ABSTRACTS and (Path(source).exists() or source.count(":") != 3):
        next(read_documents(source, input_key))


def _source(task: str, source: str | None, say: Say) -> str:
    if source == ABSTRACTS:
        from trainers.first_run.downloads import paper_abstracts

        return str(paper_abstracts(say))
    documents = source or load_task(task).documents
    if documents is None:
        raise ValueError(f"task {task!r} ships no documents; give some with --data.documents")
    return str(documents)
