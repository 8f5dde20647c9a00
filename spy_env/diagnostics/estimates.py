"""Numbers with 95 % intervals. Games are the independent units, since the votes of one game are correlated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Z = 1.959964  # the normal distribution's 97.5 % quantile
STUDENT_FEW = (12.706, 4.303, 3.182, 2.776)  # Student's, with 1, 2, 3 and 4 degrees of freedom


class Estimate(NamedTuple):
    """A value and its 95 % interval, from ``n`` votes or games."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.value:z.3f} [{self.low:z.3f}, {self.high:z.3f}]"


def share(hits: Sequence[float], counts: Sequence[int]) -> Estimate:
    """Estimate a share of votes, ``hits[g]`` of ``counts[g]`` in game g: Wilson's interval at the effective sample size.

    The effective size divides the votes by the design effect of sampling whole games, and allows for how roughly few
    games tell it (Korn and Graubard 1998); where all votes agree it can't be estimated, and is taken as the number of
    games.
    """
    games, votes = sum(count > 0 for count in counts), sum(counts)
    if not votes:
        return Estimate(0.0, 0.0, 1.0, 0)
    p = sum(hits) / votes
    n = float(games)
    if 0 < p < 1 and games > 1:
        squares = sum((hit - p * count) ** 2 for hit, count in zip(hits, counts, strict=True))
        variance = games / (games - 1) * squares / votes**2
        roughly = (_student(votes - 1) / _student(games - 1)) ** 2
        n = min(float(votes), p * (1 - p) / variance * roughly) if variance else float(votes)
    middle = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * (p * (1 - p) / n + Z**2 / (4 * n**2)) ** 0.5
    low, high = max(0.0, middle - half), min(1.0, middle + half)  # rounding errors can leave 0 and 1
    return Estimate(p, min(p, low), max(p, high), votes)


def average(values: Sequence[float]) -> Estimate:
    """Estimate a mean over games, with Student's interval."""
    n = len(values)
    if not n:
        return Estimate(0.0, float("-inf"), float("inf"), 0)
    mean = sum(values) / n
    if n == 1:
        return Estimate(mean, float("-inf"), float("inf"), 1)
    deviation = (sum((value - mean) ** 2 for value in values) / (n - 1)) ** 0.5
    half = _student(n - 1) * deviation / n**0.5
    return Estimate(mean, mean - half, mean + half, n)


def _student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, by its expansion about the normal's (Abramowitz and Stegun 26.7.5).

    For few degrees of freedom, where the expansion falls short, from the same book's table 26.10.
    """
    if freedom <= len(STUDENT_FEW):
        return STUDENT_FEW[freedom - 1]
    z, v = Z, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )
