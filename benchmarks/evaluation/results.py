"""A suite's numbers, each named with its variant, as ``results.json`` keeps them; and the published numbers beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.evaluation.intervals import Interval
from trainers import disk

AGAINST = "model against base"


@dataclass(frozen=True, slots=True)
class Score:
    """One number of a data set. Shares and F-scores are from 0 to 1; tables show them as per cent."""

    set: str
    metric: str  # with its variant, such as "rouge-l F (rouge 1.0.1)"
    who: str  # "model", "base" or AGAINST; also the name of a baseline
    value: float
    low: float | None
    high: float | None
    n: int
    interval: str
    counts: Mapping[str, int] = field(default_factory=dict)  # answers that were empty, cut, left out, by reason
    percent: bool = True  # shown times 100


def score_of(
    set: str, metric: str, who: str, interval: Interval, counts: Mapping[str, int] | None = None, percent: bool = True
) -> Score:
    """Return a score from a value with its interval; counts of zero are left out."""
    reasons = {name: count for name, count in (counts or {}).items() if count}
    value, low, high, n, method = interval
    return Score(set, metric, who, value, low, high, n, method, reasons, percent)


@dataclass(frozen=True, slots=True)
class Results:
    """A suite's numbers, the protocol by which they were computed, and notes for their reader."""

    suite: str
    scores: Sequence[Score]
    protocol: Mapping[str, Any]
    notes: Sequence[str] = ()


def write_results(results: Results, folder: Path, about: Mapping[str, Any]) -> None:
    """Write ``results.json``: the numbers, and ``about`` for the models, settings and versions. JSON has no nan: it becomes null."""
    folder.mkdir(parents=True, exist_ok=True)
    row = {"suite": results.suite, **about, "protocol": dict(results.protocol), "notes": list(results.notes)}
    row["scores"] = [
        {**asdict(score), "value": None if isnan(score.value) else score.value} for score in results.scores
    ]
    disk.write_whole(folder / "results.json", json.dumps(row, indent=2, ensure_ascii=False) + "\n")


def read_results(file: Path) -> tuple[Results, dict[str, Any]]:
    """Read what ``write_results`` wrote: the results, and ``about``."""
    row = json.loads(file.read_text(encoding="utf-8"))
    scores = [
        Score(**{**score, "value": nan if score["value"] is None else score["value"]}) for score in row.pop("scores")
    ]
    return Results(row.pop("suite"), scores, row.pop("protocol"), row.pop("notes")), row


def shown(score: Score) -> str:
    """Return a score with its interval as tables show it; a dash where there was nothing to compute it from."""
    if isnan(score.value):
        return "–"
    scale, digits = (100, 1) if score.percent else (1, 3)
    value = f"{score.value * scale:.{digits}f}"
    if score.low is None or score.high is None:
        return value
    return f"{value} [{score.low * scale:.{digits}f}, {score.high * scale:.{digits}f}]"


class Published(NamedTuple):
    """The numbers that a method reached from a backbone, in per cent by data set."""

    suite: str
    metric: str  # our metric's name without its variant
    backbone: str
    method: str  # empty: the backbone before training
    values: Mapping[str, float]

    @property
    def label(self) -> str:
        """The row's name in tables and plots."""
        return f"{self.backbone} + {self.method}" if self.method else self.backbone


SOURCE = "arXiv 2607.23802v2; other prompts, and GPT-4o as the judge"
Q4, Q8 = "Qwen3-4B", "Qwen3-8B"
_SETS = {
    "summarization": ("govreport", "multi_news", "qmsum", "vcsum", "samsum"),
    "creative_writing": ("writingprompts", "writingbench"),
    "reasoning": ("gsm8k", "math500", "aime24", "aime25", "minerva_math", "mmlu_pro", "gpqa"),
}
_VALUES: Mapping[tuple[str, str], Mapping[tuple[str, str], tuple[float, ...]]] = {
    ("summarization", "rouge-l F"): {
        (Q4, ""): (30.2, 23.1, 21.3, 15.1, 43.2),
        (Q4, "R-Zero"): (32.1, 22.4, 21.5, 15.6, 42.8),
        (Q4, "Absolute Zero"): (33.2, 25.2, 22.7, 18.3, 46.1),
        (Q4, "SpyRL"): (36.7, 26.4, 25.3, 19.1, 48.2),
        (Q8, ""): (29.0, 23.1, 19.2, 14.9, 44.3),
        (Q8, "SpyRL"): (34.1, 25.8, 23.2, 19.1, 48.5),
    },
    ("summarization", "win rate, overall"): {
        (Q4, ""): (51.2, 52.1, 52.4, 51.8, 50.9),
        (Q4, "R-Zero"): (56.8, 48.2, 55.2, 51.2, 48.1),
        (Q4, "Absolute Zero"): (58.8, 61.2, 56.4, 62.8, 68.5),
        (Q4, "SpyRL"): (74.6, 80.2, 68.4, 70.2, 76.2),
        (Q8, ""): (50.2, 51.4, 52.8, 53.1, 51.6),
        (Q8, "SpyRL"): (78.2, 68.5, 78.2, 72.5, 79.5),
    },
    ("creative_writing", "win rate, novelty"): {
        (Q4, "SpyRL"): (84.3, 76.2),
        (Q8, "SpyRL"): (77.3, 78.1),
    },
    ("creative_writing", "win rate, emotion"): {
        (Q4, "SpyRL"): (76.8, 75.7),
        (Q8, "SpyRL"): (76.2, 77.4),
    },
    ("creative_writing", "win rate, coherence"): {
        (Q4, "SpyRL"): (72.3, 68.5),
        (Q8, "SpyRL"): (74.2, 71.0),
    },
    ("creative_writing", "win rate, consistency"): {
        (Q4, "SpyRL"): (70.1, 68.0),
        (Q8, "SpyRL"): (75.0, 71.2),
    },
    ("creative_writing", "win rate, overall"): {
        (Q4, "SpyRL"): (81.3, 75.1),
        (Q8, "SpyRL"): (76.5, 78.1),
    },
    ("reasoning", "accuracy"): {
        (Q4, ""): (84.5, 68.2, 10.3, 6.7, 42.3, 51.6, 26.3),
        (Q4, "SpyRL"): (93.4, 79.5, 13.3, 20.0, 47.8, 57.4, 41.3),
        (Q8, ""): (91.8, 74.2, 15.3, 12.1, 49.3, 58.1, 33.3),
        (Q8, "SpyRL"): (93.5, 81.2, 20.0, 23.3, 56.3, 63.1, 39.8),
    },
}
PUBLISHED = tuple(
    Published(suite, metric, backbone, method, dict(zip(_SETS[suite], values, strict=True)))
    for (suite, metric), rows in _VALUES.items()
    for (backbone, method), values in rows.items()
)


def beside(suite: str, metric: str, sets: Sequence[str]) -> list[Published]:
    """Return the published rows of a metric on some of ``sets``; none where another metric was published."""
    rows = [row for row in PUBLISHED if row.suite == suite and row.metric == metric]
    kept = [row._replace(values={name: row.values[name] for name in sets if name in row.values}) for row in rows]
    return [row for row in kept if row.values]
