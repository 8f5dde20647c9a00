"""How long a run may take and how long it will."""

from __future__ import annotations

import time


class Clock:
    """Begins when it is made. The evaluation after training is taken to last as long as the one before."""

    def __init__(self, max_minutes: float | None) -> None:
        self._limit = 60 * max_minutes if max_minutes is not None else float("inf")
        self._begun = self._trains_since = time.monotonic()
        self._evaluation = 0.0

    def start_training(self, evaluation: float) -> None:
        """All that comes before training is done; playing the held-out games took ``evaluation`` seconds."""
        self._trains_since, self._evaluation = time.monotonic(), evaluation

    def late(self, done: int) -> bool:
        """Whether another iteration would leave too little time for the evaluation at the end; never before the first."""
        return bool(done) and self._elapsed() + self._needed(done, 1) > self._limit

    def left(self, done: int, to_do: int) -> float:
        """Seconds until the end, at the pace of the iterations done."""
        return min(self._needed(done, to_do), self._limit - self._elapsed())

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _needed(self, done: int, to_do: int) -> float:
        return (time.monotonic() - self._trains_since) / done * to_do + self._evaluation
