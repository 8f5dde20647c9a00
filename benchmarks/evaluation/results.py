"""What a suite found: numbers that name their variant, and what was left out; as JSON and as a Markdown table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.evaluation.intervals import Interval
from trainers import disk


@dataclass(frozen=True, slots=True)
class Score:
    """One number. ``metric`` names its variant in full, such as ``rouge-l F (rouge 1.0.1)``; ``who`` is ``model``,
    ``base``, or ``model against base``. Shares and F-scores are from 0 to 1; tables show them as per cent.

    ``counts`` say what a reader must know beside it: how many answers were empty, truncated, shortened, left out and why.
    """

    set: str
    metric: str
    who: str
    value: float
    low: float | None
    high: float | None
    n: int
    interval: str
    counts: Mapping[str, int] = field(default_factory=dict)
    percent: bool = True  # shown times 100


def score_of(
    set: str, metric: str, who: str, interval: Interval, counts: Mapping[str, int] | None = None, percent: bool = True
) -> Score:
    """A score from a value with its interval; counts of zero are left out."""
    seen = {name: count for name, count in (counts or {}).items() if count}
    return Score(
        set, metric, who, interval.value, interval.low, interval.high, interval.n, interval.method, seen, percent
    )


@dataclass(frozen=True, slots=True)
class Results:
    """A suite's numbers. ``protocol`` says how they came about, one line a point; ``notes`` what a reader must know."""

    suite: str
    scores: Sequence[Score]
    protocol: Mapping[str, Any]
    notes: Sequence[str] = ()


def write_results(results: Results, folder: Path, about: Mapping[str, Any]) -> None:
    """Write ``results.json``: the suite's numbers and ``about``, what was evaluated and with which settings and versions.

    A value that nothing could be computed from is null there: JSON has no nan.
    """
    folder.mkdir(parents=True, exist_ok=True)
    row = {"suite": results.suite, **about, "protocol": dict(results.protocol), "notes": list(results.notes)}
    row["scores"] = [
        {**asdict(score), "value": score.value if score.value == score.value else None} for score in results.scores
    ]
    disk.write_whole(folder / "results.json", json.dumps(row, indent=2, ensure_ascii=False) + "\n")


def read_results(file: Path) -> tuple[Results, dict[str, Any]]:
    """What ``write_results`` wrote: the results and what they are about."""
    row = json.loads(file.read_text(encoding="utf-8"))
    scores = [
        Score(**{**score, "value": float("nan") if score["value"] is None else score["value"]})
        for score in row.pop("scores")
    ]
    return Results(row.pop("suite"), scores, row.pop("protocol"), row.pop("notes")), row


def shown(score: Score) -> str:
    """A score as tables show it."""
    scale, digits = (100, 1) if score.percent else (1, 3)
    if score.value != score.value:  # nan: nothing to compute it from
        return "–"
    value = f"{score.value * scale:.{digits}f}"
    if score.low is None or score.high is None:
        return value
    return f"{value} [{score.low * scale:.{digits}f}, {score.high * scale:.{digits}f}]"
