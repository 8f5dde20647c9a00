"""What a suite found: numbers that name their variant, and what was left out; and the published numbers beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

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


SOURCE = "arXiv 2607.23802v2; other prompts, and GPT-4o as the judge"
Q4, Q8 = "Qwen3-4B", "Qwen3-8B"


class Published(NamedTuple):
    """One row: what a method reached from a backbone, in per cent by data set."""

    suite: str
    metric: str  # as the part of our metric's name that tells what is measured
    backbone: str
    method: str  # empty: the backbone before training
    values: Mapping[str, float]

    @property
    def label(self) -> str:
        """How tables and plots name the row."""
        return f"{self.backbone} + {self.method}" if self.method else self.backbone


_SUMMARIES = ("govreport", "multi_news", "qmsum", "vcsum", "samsum")
_REASONING = ("gsm8k", "math500", "aime24", "aime25", "minerva_math", "mmlu_pro", "gpqa")
_CRITERIA = ("novelty", "emotion", "coherence", "consistency", "overall")
# ROUGE-L, and the share of pairs won against the untrained base.
_SUMMARIZATION = {
    (Q4, ""): ((30.2, 51.2), (23.1, 52.1), (21.3, 52.4), (15.1, 51.8), (43.2, 50.9)),
    (Q4, "R-Zero"): ((32.1, 56.8), (22.4, 48.2), (21.5, 55.2), (15.6, 51.2), (42.8, 48.1)),
    (Q4, "Absolute Zero"): ((33.2, 58.8), (25.2, 61.2), (22.7, 56.4), (18.3, 62.8), (46.1, 68.5)),
    (Q4, "SpyRL"): ((36.7, 74.6), (26.4, 80.2), (25.3, 68.4), (19.1, 70.2), (48.2, 76.2)),
    (Q8, ""): ((29.0, 50.2), (23.1, 51.4), (19.2, 52.8), (14.9, 53.1), (44.3, 51.6)),
    (Q8, "SpyRL"): ((34.1, 78.2), (25.8, 68.5), (23.2, 78.2), (19.1, 72.5), (48.5, 79.5)),
}
_WRITING = {
    (Q4, "writingprompts"): (84.3, 76.8, 72.3, 70.1, 81.3),
    (Q4, "writingbench"): (76.2, 75.7, 68.5, 68.0, 75.1),
    (Q8, "writingprompts"): (77.3, 76.2, 74.2, 75.0, 76.5),
    (Q8, "writingbench"): (78.1, 77.4, 71.0, 71.2, 78.1),
}
_ACCURACY = {
    (Q4, ""): (84.5, 68.2, 10.3, 6.7, 42.3, 51.6, 26.3),
    (Q4, "SpyRL"): (93.4, 79.5, 13.3, 20.0, 47.8, 57.4, 41.3),
    (Q8, ""): (91.8, 74.2, 15.3, 12.1, 49.3, 58.1, 33.3),
    (Q8, "SpyRL"): (93.5, 81.2, 20.0, 23.3, 56.3, 63.1, 39.8),
}


def _rows() -> tuple[Published, ...]:
    rows = []
    for place, metric in enumerate(("rouge-l F", "win rate, overall")):
        for (backbone, method), pairs in _SUMMARIZATION.items():
            values = {name: pair[place] for name, pair in zip(_SUMMARIES, pairs, strict=True)}
            rows.append(Published("summarization", metric, backbone, method, values))
    for place, criterion in enumerate(_CRITERIA):
        for backbone in (Q4, Q8):
            values = {name: wins[place] for (whose, name), wins in _WRITING.items() if whose == backbone}
            rows.append(Published("creative_writing", f"win rate, {criterion}", backbone, "SpyRL", values))
    for (backbone, method), shares in _ACCURACY.items():
        rows.append(Published("reasoning", "accuracy", backbone, method, dict(zip(_REASONING, shares, strict=True))))
    return tuple(rows)


PUBLISHED = _rows()


def beside(suite: str, metric: str, sets: Sequence[str]) -> list[Published]:
    """The published rows of a metric on some of ``sets``; none where what was published is another metric."""
    rows = [row for row in PUBLISHED if row.suite == suite and row.metric == metric]
    kept = [row._replace(values={name: row.values[name] for name in sets if name in row.values}) for row in rows]
    return [row for row in kept if row.values]
