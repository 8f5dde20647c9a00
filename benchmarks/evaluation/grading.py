"""Grade answers without trusting them: algebra runs in a worker process that is ended when it takes too long.

What spelling and plain numbers settle never gets there (``answers.py``), so most answers cost microseconds.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from functools import cache
from importlib.util import find_spec
from types import TracebackType
from typing import Any, NamedTuple

from benchmarks.evaluation.answers import LONGEST_ANSWER, Kind, final_answer, settled

SECONDS = 10.0  # for one answer; ours: what sympy can simplify at all takes it about one
TO_START = 120.0  # seconds for a worker to import sympy, on a busy machine
NO_ANSWER, TOO_LONG, TIMED_OUT, DIED = "no answer", "answer too long", "grader timed out", "grader died"
REASONS = (NO_ANSWER, TOO_LONG, TIMED_OUT, DIED)  # the whys that results count
_WORKER = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from benchmarks.evaluation.algebra import serve; serve()"
)


class Outcome(NamedTuple):
    """A graded answer. ``why`` says what made it wrong, where it is no plain mismatch; one of ``REASONS`` or empty."""

    said: str | None
    right: bool
    why: str = ""


class Grader:
    """Grades replies against gold answers; a context manager. Its worker is started when it is first needed, and reused.

    Each answer has ``seconds``; one that takes longer is wrong, with ``grader timed out``. A worker that dies is
    started again and asked once more. Safe to use from several threads, which then take turns.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        """Nothing is started yet."""
        self.seconds = seconds
        self.starts = 0
        self._worker: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, str], tuple[bool, str]] = {}

    def __enter__(self) -> Grader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def grade(self, kind: Kind, reply: str, gold: str) -> Outcome:
        """Whether a reply's final answer is the gold one.

        Raises:
            ValueError: math-verify isn't installed.
        """
        said = final_answer(reply, kind)
        if said is None:
            return Outcome(None, False, NO_ANSWER)
        return Outcome(said[:LONGEST_ANSWER], *self.same(kind, said, gold))

    def same(self, kind: Kind, answer: str, gold: str) -> tuple[bool, str]:
        """Whether an answer is the gold one, and why not where that is known.

        Raises:
            ValueError: math-verify isn't installed.
        """
        if len(answer) > LONGEST_ANSWER:
            return False, TOO_LONG
        if (told := settled(kind, answer, gold)) is not None:
            return told, ""
        key = (kind, answer, gold)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._by_algebra(kind, answer, gold)
            return self._known[key]

    def close(self) -> None:
        """End the worker."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            worker.communicate()

    def _by_algebra(self, kind: Kind, answer: str, gold: str) -> tuple[bool, str]:
        request = {"kind": kind, "answer": answer, "gold": gold, "seconds": self.seconds}
        for _ in range(2):
            worker = self._started()
            reply, timed_out = _asked(worker, json.dumps(request), self.seconds)
            if reply is not None:
                return bool(reply["right"]), ""
            self.close()
            if timed_out:
                return False, TIMED_OUT
        return False, DIED

    def _started(self) -> subprocess.Popen[str]:
        if self._worker is not None and self._worker.poll() is None:
            return self._worker
        self.close()
        check_installed()
        self.starts += 1
        self._worker = subprocess.Popen(
            [sys.executable, "-c", _WORKER, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        hello, _ = _asked(self._worker, None, TO_START)
        if hello is None or "missing" in hello:
            self.close()
            raise ValueError(
                f"the grader's process doesn't start ({(hello or {}).get('missing', 'it ended')}); it needs the eval extra: "
                "pip install 'spy-env[eval]'"
            )
        return self._worker


def check_installed() -> None:
    """Look for math-verify without importing it.

    Raises:
        ValueError: it isn't installed.
    """
    if find_spec("math_verify") is None:
        raise ValueError("grading mathematics needs the eval extra: pip install 'spy-env[eval]'")


def _asked(worker: subprocess.Popen[str], line: str | None, seconds: float) -> tuple[dict[str, Any] | None, bool]:
    """A worker's next line of JSON, after a line to it; None where it died, and whether that was for its time."""
    assert worker.stdin is not None and worker.stdout is not None  # noqa: PT018 - both are pipes, for the type checker
    late = threading.Event()

    def end() -> None:
        late.set()
        worker.kill()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        if line is not None:
            worker.stdin.write(line + "\n")
            worker.stdin.flush()
        said = worker.stdout.readline()
    except OSError:  # a broken pipe: it is gone
        said = ""
    finally:
        timer.cancel()
    return (json.loads(said) if said.endswith("\n") else None), late.is_set()


@cache
def shared_grader() -> Grader:
    """One grader for a whole process, where nobody can hand one on: the task files of lm-evaluation-harness."""
    grader = Grader()
    atexit.register(grader.close)
    return grader
