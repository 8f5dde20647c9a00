"""Read a corpus as a stream of documents, and shorten a document to a budget.

A file that is wrong (no such field, broken JSON, bad UTF-8, an id twice) is an error that names file and line. A
document that is right but too short to play is skipped, counted and named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from spy_env.masking import unit_start, units

PLAYABLE_UNITS = 5  # with fewer, nothing is left beside the mask; our choice
TEXT_SUFFIXES = (".txt", ".md")


@dataclass(frozen=True, slots=True)
class Document:
    """A text to play on. ``id`` is unique within its corpus."""

    id: str
    text: str


@dataclass(slots=True)
class Skipped:
    """Counts the documents that are too short to play, while a corpus is read."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, where: str, words: int) -> None:
        """Count a document; the first few are kept by name."""
        self.count += 1
        if len(self.examples) < 5:
            self.examples.append(f"{where}: {words} words, at least {PLAYABLE_UNITS} are needed")

    def __str__(self) -> str:
        more = self.count - len(self.examples)
        return "; ".join(self.examples) + (f"; and {more} more" if more > 0 else "")


def read_documents(source: str | Path, input_key: str = "text", skipped: Skipped | None = None) -> Iterator[Document]:
    """Yield the playable documents of a corpus, one at a time.

    Args:
        source: a ``.jsonl`` file, a folder of ``.txt`` and ``.md`` files (read in name order), or a hub data set as
            ``id:config:split:column`` (an empty config is the default one), which is streamed.
        input_key: the field of a JSONL row that holds the text. A row's ``id``, if it has one, becomes the document's.
        skipped: counts the documents that are too short to play.

    Raises:
        ValueError: the source isn't there, a row can't be read (named by file and line), or no document is playable.
    """
    skipped = skipped if skipped is not None else Skipped()
    seen: set[str] = set()
    playable = 0
    for where, document in _rows(source, input_key):
        if document.id in seen:
            raise ValueError(f"{where}: the id {document.id!r} occurs twice; ids must be unique within a corpus")
        seen.add(document.id)
        words = playable_units(document.text)
        if words < PLAYABLE_UNITS:
            skipped.add(where, words)
            continue
        playable += 1
        yield document
    if not playable:
        why = f" ({skipped})" if skipped.count else ""
        raise ValueError(
            f"{source}: no playable document{why}; give a corpus with texts of {PLAYABLE_UNITS} words or more"
        )


def playable_units(text: str) -> int:
    """Count the units of a text, up to ``PLAYABLE_UNITS``."""
    return sum(1 for _ in islice(units(text), PLAYABLE_UNITS))


def shorten(text: str, max_units: int) -> str:
    """Cut a text after its ``max_units``-th unit."""
    end = unit_start(text, max_units)
    return text if end == len(text) else text[:end].rstrip()


def _rows(source: str | Path, input_key: str) -> Iterator[tuple[str, Document]]:
    path = Path(source)
    if path.is_dir():
        return _text_files(path)
    if path.is_file():
        if path.suffix in TEXT_SUFFIXES:
            raise ValueError(f"{path} is one text file; give its folder, or a .jsonl file with one document per line")
        return _json_lines(path, input_key)
    if str(source).count(":") == 3:
        return _hub_rows(str(source))
    raise ValueError(
        f"no corpus at {str(source)!r}; give a .jsonl file, a folder of text files, or a hub data set as id:config:split:column"
    )


def _text_files(folder: Path) -> Iterator[tuple[str, Document]]:
    files = sorted(path for path in folder.iterdir() if path.suffix in TEXT_SUFFIXES and path.is_file())
    if not files:
        raise ValueError(f"{folder} holds no {' or '.join(TEXT_SUFFIXES)} files")
    for path in files:
        yield str(path), Document(path.name, _decode(path.read_bytes(), str(path)))


def _json_lines(path: Path, input_key: str) -> Iterator[tuple[str, Document]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path}:{number}"
            if not line.strip():
                continue
            decoded = _decode(line, where)
            try:
                row = json.loads(decoded)
            except (ValueError, RecursionError) as error:  # beside broken JSON: huge numbers, deep nesting
                raise ValueError(f"{where}: not JSON ({error}); a corpus has one JSON object per line") from error
            if not isinstance(row, dict):
                raise ValueError(f"{where}: {type(row).__name__} instead of a JSON object")
            text = _text_of(row, input_key, where, flag="input_key")
            yield where, Document(str(f"{path.name}:{number}" if row.get("id") is None else row["id"]), text)


def _hub_rows(source: str) -> Iterator[tuple[str, Document]]:
    name, config, split, column = source.split(":")
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ValueError(f"reading {source!r} from a hub needs the data extra: pip install -e '.[data]'") from error
    for number, row in enumerate(load_dataset(name, config or None, split=split, streaming=True)):
        where = f"{source} row {number}"
        yield (
            where,
            Document(f"{split}-{number}", _text_of(row, column, where, flag="the column in id:config:split:column")),
        )


def _text_of(row: dict[str, Any], key: str, where: str, flag: str) -> str:
    if key not in row:
        raise ValueError(f"{where}: no field {key!r}; the row has {sorted(row)}. Choose one with {flag}")
    text = row[key]
    if not isinstance(text, str):
        raise ValueError(f"{where}: field {key!r} holds {type(text).__name__}, not text. Choose another with {flag}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where}: field {key!r} holds a lone surrogate ({error})") from error
    return text


def _decode(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not UTF-8 ({error}); convert it first, for example with iconv") from error
