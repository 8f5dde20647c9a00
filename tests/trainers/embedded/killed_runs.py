"""Trainings in processes of their own that are killed at a chosen moment.

A server process imports torch once and forks for each training. Moments are counted in what a process does to files of
the run's folder, which Python's audit hooks tell before it is done.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, NamedTuple

from tests.trainers import tiny_runs
from trainers.config import Config
from trainers.embedded.display import Display
from trainers.settings import from_dict

DEADLINE = 120.0  # seconds for one training of a second or two
MARKS = 80  # bytes
gc.freeze()  # what is imported stays shared between the server and its forks


class Act(NamedTuple):
    """Something that a run is about to do to a file."""

    what: str  # "open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"
    file: str  # relative to the run's folder
    doing: str  # what the run is busy with


class Kill(NamedTuple):
    """Before the ``act``-th act; or, where ``into`` is given, in the middle of what follows: when a file gets longer
    than it is by so many bytes, the kernel ends the process."""

    act: int
    into: int | None = None


def train(settings: dict[str, Any], kill: Kill | None, marks: str, acts: str | None = None) -> None:
    """Run a training; write its acts to a file, or die."""
    config = from_dict(Config, settings, "test")
    watch = _Watch(Path(config.ckpt.output_dir).absolute(), kill, os.open(marks, os.O_WRONLY))
    sys.addaudithook(watch.heard)

    class Watched(Display):
        def doing(self, what):
            watch.busy(what)

        def step(self, step, *_):
            watch.busy(f"reporting {step}")

    tiny_runs.run(config, Watched)
    if acts:
        Path(acts).write_text(json.dumps(watch.acts), encoding="utf-8")


class _Watch:
    def __init__(self, folder: Path, kill: Kill | None, marks: int) -> None:
        self.folder, self.kill, self.marks = str(folder) + os.sep, kill, marks
        self.acts: list[Act] = []
        self.now = "beginning"
        self.emptying = False

    def busy(self, what: str) -> None:
        self.now = what
        os.pwrite(self.marks, what.encode().ljust(MARKS), 0)

    def heard(self, event: str, about: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = about
            if not isinstance(path, str) or not flags & (os.O_WRONLY | os.O_RDWR):
                return
        elif event not in ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"):
            return
        path = os.fspath(about[0]) if not isinstance(about[0], int) else ""
        # where a tree is removed, its names come relative to an open folder
        if path.startswith(self.folder) or (event in ("os.remove", "os.rmdir") and not path.startswith(os.sep)):
            self.act(Act(event, path.removeprefix(self.folder), self.now))

    def act(self, act: Act) -> None:
        self.acts.append(act)
        if self.kill and len(self.acts) == self.kill.act:
            if self.kill.into is None:
                os.kill(os.getpid(), signal.SIGKILL)
            file = Path(self.folder, act.file)
            length = file.stat().st_size if file.is_file() else 0
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (length + self.kill.into, resource.RLIM_INFINITY))


class Trainings:
    """The server, and the place where runs tell what they are busy with."""

    def __init__(self, place: Path) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(
            ["tests.trainers.embedded.killed_runs", "pytest"]
        )  # each process imports the main module, pytest
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # the server knows no other way
        try:
            forkserver.ensure_running()
        finally:
            del os.environ["PYTHONPATH"]
            os.environ.update({"PYTHONPATH": before} if before is not None else {})
        self.marks = place / "marks"
        self.marks.write_bytes(b" " * MARKS)

    def begin(self, settings: dict[str, Any], kill: Kill | None = None, acts: Path | None = None) -> Any:
        self.marks.write_bytes(b" " * MARKS)
        process = self.context.Process(target=train, args=(settings, kill, str(self.marks), acts and str(acts)))
        process.start()
        return process

    def run(self, settings: dict[str, Any], kill: Kill | None = None, acts: Path | None = None) -> int:
        """A training to its end, or to its kill. Returns the exit code: minus the signal's number."""
        process = self.begin(settings, kill, acts)
        process.join(DEADLINE)
        return _ended(process)

    def killed_while(self, settings: dict[str, Any], doing: str, time_in: int, delay: float) -> str | None:
        """Kill a training ``delay`` seconds after it is busy with ``doing`` for the ``time_in``-th time.

        Returns what it was busy with when it died; None where it had ended before.
        """
        process, seen, last = self.begin(settings), 0, ""
        deadline = time.monotonic() + DEADLINE
        while process.is_alive() and time.monotonic() < deadline:
            now = self.busy_with()
            seen += now == doing != last
            last = now
            if seen == time_in:
                time.sleep(delay)
                break
            time.sleep(0.0005)
        process.kill()
        process.join(DEADLINE)
        return self.busy_with() if _ended(process) == -signal.SIGKILL else None

    def busy_with(self) -> str:
        return self.marks.read_bytes().decode().strip()


def _ended(process: Any) -> int:
    code = process.exitcode
    if code is None:
        process.kill()
        raise TimeoutError(f"a training takes longer than {DEADLINE} seconds")
    return code
