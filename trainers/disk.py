"""Files and folders that appear whole or not at all, whatever ends the process, and errors of the disk in plain words.

A folder is filled under a hidden name beside its place and moved there; ``mend`` clears away what a killed process left.
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
_WAYS_OUT = dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free space")


class NotWrittenError(OSError):
    """The disk is full or a file can't be written; checkpoints that were there are whole."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say what the disk refuses.

    Raises:
        NotWrittenError: instead of an ``OSError``, and of what torch, safetensors and tokenizers raise in its place.
    """
    try:
        yield
    except NotWrittenError:
        raise
    except Exception as error:
        if (number := _errno(error)) is None:
            raise
        way_out = _WAYS_OUT.get(number, "make it writable")
        raise NotWrittenError(
            f"{path} can't be written: {os.strerror(number)}; {way_out}, then go on with --ckpt.load_enable"
        ) from error


def _errno(error: BaseException) -> int | None:
    """The number of the operating system's error behind an exception; None where there is none."""
    if isinstance(error, OSError):
        return error.errno
    if isinstance(error, RuntimeError) and isinstance(error.__context__, OSError):  # torch.save to a Python file
        return error.__context__.errno
    told = re.search(r"\(os error (\d+)\)", str(error))  # libraries written in Rust
    return int(told[1]) if told else None


def append(file: Path, text: str) -> None:
    """Add to a file in one write, and see it on the disk. Where it doesn't fit, the file stays as it was.

    The system may show a reader the beginning of a long write: a line that isn't ended isn't there yet.
    """
    added = text.encode("utf-8")
    with writing(file), file.open("ab", buffering=0) as raw:
        before = raw.tell()
        try:
            while added:
                added = added[raw.write(added) :]  # a disk that fills takes a part and refuses the rest
            os.fsync(raw.fileno())
        except BaseException:
            raw.truncate(before)
            raise


def read_log(file: Path) -> list[dict[str, Any]]:
    """The lines of a JSON lines file, also while another process adds to it; none where there is no file yet."""
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def write_whole(file: Path, text: str) -> None:
    """Write a file that other processes see as it was or as it will be."""
    staging = _hidden(file, PARTIAL)
    with writing(file):
        staging.write_text(text, encoding="utf-8")
        sync(staging)
        staging.replace(file)


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """A folder to fill; at the end it is moved to ``place``, and what stood there is removed."""
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
    """Remove a folder: hidden at once, then emptied, so that no half of it is taken for the whole."""
    hidden = _hidden(place, REMOVED)
    shutil.rmtree(hidden, ignore_errors=True)
    place.rename(hidden)
    shutil.rmtree(hidden)


def mend(folder: Path) -> None:
    """Clear away what a killed process left in ``folder``; an old one whose successor never came takes its place again."""
    for hidden in folder.glob(".*"):
        name, _, what = hidden.name[1:].rpartition(".")
        if what == REPLACED and not (folder / name).exists():
            hidden.rename(folder / name)
        elif what in (PARTIAL, REPLACED, REMOVED):
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
    """See a file's bytes, or a folder's names, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _hidden(place: Path, what: str) -> Path:
    return place.with_name(f".{place.name}.{what}")
