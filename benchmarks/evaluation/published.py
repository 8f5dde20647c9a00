"""The published numbers, to stand beside ours: per cent, by suite, metric and data set.

From the tables of "SpyRL" (arXiv 2607.23802v2). Their prompts, judge (GPT-4o) and samples aren't ours: a difference of a
point or two says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
