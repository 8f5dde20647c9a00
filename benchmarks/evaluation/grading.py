"""Grade answers without trusting them: algebra runs in a worker process that is killed when it takes too long.

Answers that spelling, words and plain numbers settle (``answers.py``) never get there, so most cost microseconds.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from functools import cache
from importlib.util import find_spec
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from benchmarks.evaluation.answers import Kind, final_answer, settled

SECONDS = 10.0  # per answer; ours: sympy takes about one for whatever it can simplify at all
TO_START = 120.0  # seconds for a worker to import sympy, on a busy machine
LONGEST_ANSWER = 2000  # characters; ours. The longest gold answer of the sets here has 140
NO_ANSWER, TOO_LONG, TIMED_OUT, DIED = "no answer", "answer too long", "grader timed out", "grader died"
INSTALL = "pip install -e '.[eval]' in the checkout"
_WORKER = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from benchmarks.evaluation.algebra import serve; serve()"
)


class Outcome(NamedTuple):
    """A graded answer. ``why`` names the reason of a wrong one that isn't simply another answer."""

    answer: str | None
    right: bool
    why: str = ""


class Grader(AbstractContextManager["Grader"]):
    """Grades replies against gold answers. Its worker starts when it is first needed, and is reused.

    An answer that takes longer than ``seconds`` is wrong. A worker that dies is started again and asked once more.
    Threads may share a grader, and then take turns.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.starts = 0
        self._worker: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._grades: dict[tuple[str, str, str], tuple[bool, str]] = {}

    def __exit__(self, *_: object) -> None:
        self.close()

    def grade(self, kind: Kind, reply: str, gold: str) -> Outcome:
        """Grade a reply by its final answer.

        Raises:
            ValueError: math-verify isn't installed.
        """
        answer = final_answer(reply, kind)
        if answer is None:
            return Outcome(None, False, NO_ANSWER)
        return Outcome(answer[:LONGEST_ANSWER], *self.same(kind, answer, gold))

    def same(self, kind: Kind, answer: str, gold: str) -> tuple[bool, str]:
        """Return whether an answer is the gold one, and why not where that is more than a mismatch.

        Raises:
            ValueError: math-verify isn't installed.
        """
        if len(answer) > LONGEST_ANSWER:
            return False, TOO_LONG
        if (right := settled(kind, answer, gold)) is not None:
            return right, ""
        key = (kind, answer, gold)
        with self._lock:
            if key not in self._grades:
                self._grades[key] = self._by_algebra(kind, answer, gold)
            return self._grades[key]

    def close(self) -> None:
        """Kill the worker."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            worker.communicate()

    def _by_algebra(self, kind: Kind, answer: str, gold: str) -> tuple[bool, str]:
        request = {"kind": kind, "answer": answer, "gold": gold, "seconds": self.seconds}
        for _ in range(2):
            reply, timed_out = _ask(self._running_worker(), request, self.seconds)
            if reply is not None:
                return reply["right"], ""
            self.close()
            if timed_out:
                return False, TIMED_OUT
        return False, DIED

    def _running_worker(self) -> subprocess.Popen[str]:
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
        hello, _ = _ask(self._worker, None, TO_START)
        if hello is None or "missing" in hello:
            self.close()
            reason = hello["missing"] if hello else "it ended"
            raise ValueError(f"the grader's process doesn't start ({reason}); it needs the eval extra: {INSTALL}")
        return self._worker


def check_installed() -> None:
    """Look for math-verify without importing it.

    Raises:
        ValueError: it isn't installed.
    """
    if find_spec("math_verify") is None:
        raise ValueError(f"grading mathematics needs math-verify, of the eval extra: {INSTALL}")


def _ask(worker: subprocess.Popen[str], request: Any, seconds: float) -> tuple[dict[str, Any] | None, bool]:
    """Send a request, if any, and return the worker's reply (None where there is none) and whether time ran out."""
    assert worker.stdin is not None and worker.stdout is not None  # noqa: PT018 - both are pipes, for the type checker
    try:
        if request is not None:
            print(json.dumps(request), file=worker.stdin, flush=True)
    except BrokenPipeError:  # it has died
        return None, False
    in_time = bool(wait([worker.stdout.fileno()], seconds))
    line = worker.stdout.readline() if in_time else ""  # the worker writes a line as a whole
    return (json.loads(line) if line.endswith("\n") else None), not in_time


@cache
def shared_grader() -> Grader:
    """Return the grader of this process, for the task files of lm-evaluation-harness, which nobody can hand one."""
    grader = Grader()
    atexit.register(grader.close)
    return grader
