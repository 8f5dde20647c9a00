"""Files and folders that appear whole or not at all, whatever ends the process; and the disk's errors in plain words.

A folder is filled under a hidden name beside its place and moved there; ``mend`` clears away the rest of a killed process.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PARTIAL, REPLACED, REMOVED = "partial", "replaced", "removed"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NotWrittenError(OSError):
    """The disk is full or a file can't be written; earlier checkpoints are whole."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an ``OSError``, also as torch, safetensors and tokenizers raise it, into an error that names ``path`` and the way out.

    Raises:
        NotWrittenError: the disk refuses to write.
    """
    try:
        yield
    except NotWrittenError:
        raise
    except Exception as error:
        if (number := _errno(error)) is None:
            raise
        way_out = "free space" if number in FULL else "make it writable"
        raise NotWrittenError(
            f"{path} can't be written: {os.strerror(number)}; {way_out}, then go on with --ckpt.load_enable"
        ) from error


def _errno(error: BaseException) -> int | None:
    """Return the number of the operating system's error behind an exception, or None."""
    if isinstance(error, OSError):
        return error.errno
    if isinstance(error, RuntimeError) and isinstance(error.__context__, OSError):  # torch.save to a Python file
        return error.__context__.errno
    number = re.search(r"\(os error (\d+)\)", str(error))  # libraries written in Rust
    return int(number[1]) if number else None


def append(file: Path, text: str) -> None:
    """Add to a file in one write and wait until it is on the disk. If it doesn't fit, the file stays as it was.

    A reader may see the beginning of a long write, so a line without a line break isn't there yet.
    """
    rest = text.encode("utf-8")
    with writing(file), file.open("ab", buffering=0) as raw:
        before = raw.tell()
        try:
            while rest:
                rest = rest[raw.write(rest) :]  # a disk that fills takes a part and refuses the rest
            os.fsync(raw.fileno())
        except BaseException:
            raw.truncate(before)
            raise


def read_log(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON lines file, also while another process adds to it; none if there is no file yet."""
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def write_whole(file: Path, text: str) -> None:
    """Write a file that other processes see either as it was or as it will be."""
    staging = _hidden(file, PARTIAL)
    with writing(file):
        staging.write_text(text, encoding="utf-8")
        sync(staging)
        staging.replace(file)


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """Give a folder to fill; at the end it takes the place of whatever is at ``place``."""
    staging, replaced = _hidden(place, PARTIAL), _hidden(place, REPLACED)
    try:
        with writing(place):
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            yield staging
            for path in [*staging.rglob("*"), staging]:
                sync(path)
            if place.exists():
                place.rename(replaced)  # a process killed between the two renames leaves the old one to ``mend``
            staging.rename(place)
            sync(place.parent)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)  # on a full disk its space is needed
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def remove_folder(place: Path) -> None:
    """Remove a folder: it is hidden first and emptied then, so that no half of it is taken for the whole."""
    hidden = _hidden(place, REMOVED)
    shutil.rmtree(hidden, ignore_errors=True)
    place.rename(hidden)
    shutil.rmtree(hidden)


def mend(folder: Path) -> None:
    """Remove a killed process's hidden files in ``folder``; a replaced folder without a successor gets its place back."""
    for hidden in folder.glob(".*"):
        name, _, kind = hidden.name[1:].rpartition(".")
        if kind == REPLACED and not (folder / name).exists():
            hidden.rename(folder / name)
        elif kind in (PARTIAL, REPLACED, REMOVED):
            shutil.rmtree(hidden) if hidden.is_dir() else hidden.unlink()


def sha256(*files: Path) -> str:
    """Return one SHA-256 over the bytes of all files."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def weights_sha256(folder: Path) -> str:
    """Return one SHA-256 over a model folder's *.safetensors files, in order of their names."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"no *.safetensors file in {folder}; name a transformers folder that holds weights")
    return sha256(*files)


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _hidden(place: Path, kind: str) -> Path:
    return place.with_name(f".{place.name}.{kind}")
