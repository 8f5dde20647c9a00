"""Read a suite's data sets: from the hub, or from a folder of JSONL files, under one set of field names."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

IDS = ("id", "_id", "unique_id", "question_id", "Record ID", "index", "ID", "pid")
NOT_FOR_EVALUATION = ("corpus", "train")  # in a file's name
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


class Hub(NamedTuple):
    """The arguments by which ``datasets.load_dataset`` finds a data set."""

    path: str
    name: str | None = None
    split: str = "test"
    data_files: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set by the name that flags, files and results use.

    ``fields`` maps our field names to possible column names, of which a row's first is read; a row with an empty value is
    left out and counted. ``optional`` fields may be missing. ``items``: how many are evaluated unless ``--limit`` says
    otherwise; None is all.
    """

    name: str
    title: str
    hub: Hub
    fields: Mapping[str, tuple[str, ...]]
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    items: int | None = None


class Items(NamedTuple):
    """The items to evaluate, each with an ``id`` that is its own; how many the set has, and what was left out and why."""

    rows: list[dict[str, Any]]
    total: int
    excluded: dict[str, int]
    source: str


def read_set(data_set: DataSet, folder: Path | None, limit: int | None, seed: int) -> Items | None:
    """Return the items of a data set, or None where ``folder`` has no file for it.

    ``seed`` draws the items if not all are wanted; a larger ``limit`` keeps the items of a smaller one.

    Raises:
        ValueError: a file or the hub can't be read, a column is missing, or no item can be evaluated.
    """
    if folder is None:
        source, rows = _named(data_set.hub), list(_hub_rows(data_set))
    else:
        file = file_of(data_set.name, folder)
        if file is None:
            return None
        source, rows = str(file), list(json_rows(file))
    excluded: Counter[str] = Counter()
    whole = [
        read for number, row in enumerate(rows) if (read := _fields(data_set, row, f"{source}:{number + 1}", excluded))
    ]
    if not whole:
        raise ValueError(
            f"{source} has {len(rows)} rows and none that can be evaluated ({dict(excluded) or 'it is empty'})"
        )
    _give_ids(whole)
    wanted = data_set.items if limit is None else limit
    return Items(drawn(whole, wanted, seed, data_set.name), len(rows), dict(excluded), source)


def drawn(rows: list[dict[str, Any]], wanted: int | None, seed: int, name: str) -> list[dict[str, Any]]:
    """Draw as many rows as wanted (None: all) by ``seed``, in their order; a larger number keeps the rows of a smaller.

    Raises:
        ValueError: fewer than one is wanted.
    """
    if wanted is not None and wanted < 1:
        raise ValueError(f"limit is {wanted}; evaluate at least 1 item of each set, or leave it out")
    if wanted is None or wanted >= len(rows):
        return rows
    order = list(range(len(rows)))
    Random(f"{seed}/{name}").shuffle(order)
    return [rows[i] for i in sorted(order[:wanted])]


def file_of(name: str, folder: Path) -> Path | None:
    """Return a data set's file in a folder: ``name.jsonl``, or the only one with the name between underscores.

    Raises:
        ValueError: there is no such folder, or several files could be meant.
    """
    if not folder.is_dir():
        raise ValueError(
            f"--data is {str(folder)!r}, which is no folder; give one that holds a JSONL file for each data set"
        )
    if (exact := folder / f"{name}.jsonl").is_file():
        return exact
    named = [
        file
        for file in sorted(folder.glob("*.jsonl"))
        if f"_{name}_" in f"_{file.stem}_" and not any(word in file.stem.split("_") for word in NOT_FOR_EVALUATION)
    ]
    if len(named) > 1:
        raise ValueError(
            f"{folder} has several files for {name}: {[file.name for file in named]}; name one {name}.jsonl"
        )
    return named[0] if named else None


def json_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines file.

    Raises:
        ValueError: a line isn't a JSON object.
    """
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:  # also what isn't UTF-8
                raise ValueError(
                    f"{file}:{number}: not JSON ({error}); a data set has one JSON object a line"
                ) from error
            if not isinstance(row, dict):
                raise ValueError(f"{file}:{number}: {type(row).__name__} instead of a JSON object")
            if b"\\u" in line and _HALF_CHARACTER.search(json.dumps(row, ensure_ascii=False)):
                raise ValueError(
                    f"{file}:{number}: a text holds half a character, which no tokenizer reads; mend or remove it"
                )
            yield row


def _hub_rows(data_set: DataSet) -> Iterator[dict[str, Any]]:
    hub = data_set.hub
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ValueError(
            f"{data_set.title} comes from a hub and needs the eval extra: pip install -e '.[eval]'; or give --data FOLDER"
        ) from error
    try:
        found = load_dataset(hub.path, hub.name, split=hub.split, data_files=hub.data_files, revision=hub.revision)
    except Exception as error:  # the hub's client raises its own kinds for no network, no such set, gated, a script
        raise ValueError(
            f"{_named(hub)} can't be read from the hub ({type(error).__name__}: {error}); log in where it is gated, or give "
            f"--data FOLDER with {data_set.name}.jsonl"
        ) from error
    return iter(found)


def _named(hub: Hub) -> str:
    return ":".join(part for part in (hub.path, hub.name, hub.data_files, hub.split) if part)


def _fields(data_set: DataSet, row: dict[str, Any], where: str, excluded: Counter[str]) -> dict[str, Any] | None:
    """Return a row under our field names; None if a required field is empty."""
    read: dict[str, Any] = {}
    for name, columns in data_set.fields.items():
        column = next((column for column in columns if column in row), None)
        if column is None:
            raise ValueError(
                f"{where}: {data_set.title} needs {name!r}, in a column {_either(columns)}; the row has {sorted(row)}"
            )
        read[name] = row[column]
        if read[name] is None or (isinstance(read[name], str | list) and not read[name]) or not str(read[name]).strip():
            excluded[f"no {name}"] += 1
            return None
    for name, columns in data_set.optional.items():
        read[name] = next((row[column] for column in columns if row.get(column) is not None), None)
    read["id"] = next((str(row[name]) for name in IDS if row.get(name) is not None), "")
    return read


def _either(columns: Sequence[str]) -> str:
    return " or ".join(map(repr, columns))


def _give_ids(rows: Sequence[dict[str, Any]]) -> None:
    """Give rows whose id is missing or repeated an id from their place in the data, different from all others."""
    counted = Counter(row["id"] for row in rows)
    taken = {name for name, count in counted.items() if name and count == 1}
    for number, row in enumerate(rows):
        if not row["id"] or counted[row["id"]] > 1:
            name = f"{row['id']}#{number}"
            while name in taken:
                name += "#"
            taken.add(name)
            row["id"] = name


_TAG = re.compile(r"\s*[\[({]\s*([A-Za-z]{2,7})\s*[\])}]\s*[:\-]*\s*")
_TAGS = frozenset({"WP", "SP", "EU", "CW", "TT", "RF", "FF"})  # the forum's kinds of prompts in words
_NO_PROMPTS = frozenset({"IP", "MP", "PI", "PM", "OT", "CC", "MODPOST"})  # images, media, own stories, talk
_JOINED = (
    (re.compile(r"\s*<newline>\s*"), "\n"),
    (re.compile(r"``\s*"), '"'),
    (re.compile(r"\s*''"), '"'),
    (re.compile(r" (n't|'(?:s|re|ve|ll|d|m|S|RE|VE|LL|D|M|em))\b"), r"\1"),
    (re.compile(r"(?<=\w) ?’ ?(?=(?:t|s|re|ve|ll|d|m)\b)"), "’"),
    (re.compile(r"(?<=\w) '(?= |$|[,.!?])"), "'"),  # closes a quotation, or is a plural's
    (re.compile(r"\b(gon|wan) (na)\b", re.IGNORECASE), r"\1\2"),
    (re.compile(r"\b(got) (ta)\b", re.IGNORECASE), r"\1\2"),
    (re.compile(r" +([,.!?;:%)\]}…])"), r"\1"),
    (re.compile(r"([(\[{$#]) +"), r"\1"),
    (re.compile(r"[ \t]{2,}"), " "),
)


def tag_of(prompt: str) -> str:
    """Return the tag at the beginning of a prompt, such as ``WP``, in capitals; empty if there is none."""
    found = _TAG.match(prompt)
    return found[1].upper() if found and found[1].upper() in _TAGS | _NO_PROMPTS else ""


def cleaned(prompt: str) -> str:
    """Return a prompt without its tags and without the spaces that tokenizing put into it."""
    while tag_of(prompt):
        prompt = prompt[_TAG.match(prompt).end() :]  # type: ignore[union-attr]
    for pattern, joined in _JOINED:
        prompt = pattern.sub(joined, prompt)
    return prompt.strip()


def in_words(rows: Iterable[dict[str, Any]], excluded: Counter[str]) -> list[dict[str, Any]]:
    """Return each prompt once, cleaned; count prompts that ask for no text, are empty or repeated."""
    kept: dict[str, dict[str, Any]] = {}
    for row in rows:
        prompt = cleaned(str(row["prompt"]))
        if (tag := tag_of(str(row["prompt"]))) in _NO_PROMPTS:
            excluded[f"no prompt in words ([ {tag} ])"] += 1
        elif not prompt:
            excluded["no prompt"] += 1
        elif prompt in kept:
            excluded["repeated prompt"] += 1
        else:
            kept[prompt] = {**row, "prompt": prompt}
    return list(kept.values())
