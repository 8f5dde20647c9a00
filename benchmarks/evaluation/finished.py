"""Finished work on disk, found by its content: what was generated or judged once is never asked for again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from trainers import disk


class Finished:
    """JSON lines that are only added to, each under the key of what it answers. One process at a time adds to a file.

    Whatever changes the answer is in the key, so nothing here is ever stale; a later run takes what it needs.
    """

    def __init__(self, file: Path) -> None:
        """Read what is there; the half line of a process that was killed is cut off.

        Raises:
            ValueError: the file holds a line that isn't ours.
        """
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self._rows: dict[str, dict[str, Any]] = {}
        written = file.read_bytes() if file.exists() else b""
        whole = written.rfind(b"\n") + 1
        if whole < len(written):
            with file.open("r+b") as half:
                half.truncate(whole)
        for number, line in enumerate(written[:whole].splitlines(), start=1):
            try:
                row = json.loads(line)
                self._rows[row["key"]] = row
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{file}:{number} is no line of finished work ({error!r}); remove the line, or give another --output"
                ) from error

    def get(self, key: str) -> dict[str, Any] | None:
        """What was finished under a key."""
        return self._rows.get(key)

    def rows(self) -> list[dict[str, Any]]:
        """All that was finished, by earlier runs too."""
        return list(self._rows.values())

    def add(self, key: str, **row: Any) -> dict[str, Any]:
        """Keep finished work, on the disk when this returns."""
        kept = {"key": key, **row}
        disk.append(self.file, _line(kept) + "\n")
        self._rows[key] = kept
        return kept


def _line(row: dict[str, Any]) -> str:
    """A row as readable JSON; escaped where a text holds half a character, which no file can."""
    line = json.dumps(row, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(row)
    return line


def content_key(*parts: Any) -> str:
    """A name for content: the first 32 hexadecimal digits of the SHA-256 of its JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:32]
