"""95 % intervals by the bootstrap: items are drawn again with replacement, whatever is computed from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainers.metrics import share

RESAMPLES = 2000  # we chose it; the ends of an interval then move by about a fiftieth of its width between seeds
Places = NDArray[np.intp]


class Interval(NamedTuple):
    """A value and its 95 % interval from ``n`` items; the ends are None where the items can't tell them."""

    value: float
    low: float | None
    high: float | None
    n: int
    method: str = "bootstrap over items"


def bootstrap(statistic: Callable[[Places], float], n: int, seed: int = 0) -> Interval:
    """Return the percentile interval of a statistic, which is called with an array of the places of ``n`` drawn items.

    Resamples where the statistic is undefined (nan) are left out; with fewer than half left there is no interval.
    """
    value = float(statistic(np.arange(n))) if n else float("nan")
    if n < 2 or np.isnan(value):
        return Interval(value, None, None, n)
    rng = np.random.default_rng(seed)
    drawn = np.array([statistic(rng.integers(0, n, n)) for _ in range(RESAMPLES)], dtype=float)
    defined = drawn[~np.isnan(drawn)]
    if len(defined) < RESAMPLES / 2:
        return Interval(value, None, None, n)
    low, high = np.percentile(defined, [2.5, 97.5])
    return Interval(value, float(low), float(high), n)


def mean(values: Sequence[float], seed: int = 0) -> Interval:
    """Return the mean of one value per item. If all are equal there is no interval: resampling would claim certainty."""
    if len(values) > 1 and len(set(values)) == 1:
        return Interval(float(values[0]), None, None, len(values), "none, as all items agree")
    taken = np.array(values, dtype=float)
    return bootstrap(lambda places: float(taken[places].mean()), len(values), seed)


def item_share(values: Sequence[float], seed: int = 0) -> Interval:
    """Return the share of items that are 1 rather than 0; some may be between, such as ties.

    Where all are 0 or all are 1, it is Wilson's interval of a share.
    """
    if values and set(values) in ({0}, {1}):
        wilson = share([int(value) for value in values], [1] * len(values))
        return Interval(wilson.value, wilson.low, wilson.high, len(values), "Wilson, as all items agree")
    return mean(values, seed)
