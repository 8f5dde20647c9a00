"""A suite's numbers arranged as they are read: one block a metric, a row a contestant, a column a data set.

Tables, plots and the report all show these blocks, so that they can't disagree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.evaluation.published import Published, beside
from benchmarks.evaluation.results import Results, Score

TITLES = {
    "gsm8k": "GSM8K",
    "math500": "MATH-500",
    "aime24": "AIME 24",
    "aime25": "AIME 25",
    "minerva_math": "Minerva",
    "mmlu_pro": "MMLU-Pro",
    "gpqa": "GPQA-Diamond",
    "govreport": "GovReport",
    "multi_news": "Multi-News",
    "qmsum": "QMSum",
    "vcsum": "VCSum",
    "samsum": "SAMSum",
    "arxiv": "arXiv",
    "pubmed": "PubMed",
    "billsum": "BillSum",
    "writingprompts": "WritingPrompts",
    "writingbench": "WritingBench",
}
AGAINST = "model against base"
_VARIANT = re.compile(
    r" \(([^()]*(?:\([^()]*\)[^()]*)*)\)|, ((?:partly )?few-shot|zero-shot|greedy|mean of \d+ samples)"
)
_DIFFERENCE = re.compile(r", difference$|^difference of ")
NOT_PUBLISHED = ("zero-shot", "partly few-shot")  # the published SAMSum has examples


@dataclass(slots=True)
class Block:
    """One metric of a suite: rows of scores by data set, and the published rows that may stand under them.

    ``variants`` say which variant of the metric a data set was measured by; ``lead`` is the metric that is published.
    """

    title: str
    lead: str
    rows: dict[str, dict[str, Score]] = field(default_factory=dict)
    variants: dict[str, list[str]] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)

    @property
    def sets(self) -> list[str]:
        """The data sets, in the order of the scores."""
        return list(self.variants)

    @property
    def shared(self) -> list[str]:
        """What the variants of all data sets have in common."""
        first, *others = self.variants.values()
        return [part for part in first if all(part in other for other in others)]

    @property
    def heading(self) -> str:
        """The title, with the variant as far as it is the same everywhere."""
        return _named(self.title, self.shared)

    def column(self, name: str) -> str:
        """The head of a column: the data set, with what is its own of its variant."""
        return _named(titled(name), [part for part in self.variants[name] if part not in self.shared])


def titled(name: str) -> str:
    """A data set's title; the name itself where we know none, as of a task of the alignment study."""
    return TITLES.get(name, name)


def _named(name: str, variant: Sequence[str]) -> str:
    return f"{name} ({', '.join(variant)})" if variant else name


def blocks(results: Results) -> list[Block]:
    """The blocks of a suite, in the order in which its scores stand."""
    found: dict[str, Block] = {}
    for score in results.scores:
        title, row, lead, variant = _place(score)
        block = found.setdefault(title, Block(title, lead))
        block.rows.setdefault(row, {})[score.set] = score
        if not block.variants.get(score.set):
            block.variants[score.set] = variant  # the difference's name has it, too
    for block in found.values():
        comparable = [name for name in block.sets if not set(NOT_PUBLISHED) & set(block.variants[name])]
        block.published = beside(results.suite, block.lead, comparable)
    return list(found.values())


def _place(score: Score) -> tuple[str, str, str, list[str]]:
    """A score's block, row, the metric that the block would be published under, and the score's variant."""
    measure, _, what = score.metric.partition(": ")
    if what:  # many numbers of one measure
        return measure, what, measure, []
    named = _VARIANT.sub("", score.metric)
    variant = [
        part for found in _VARIANT.findall(score.metric) for given in found if given for part in given.split(", ")
    ]
    if _DIFFERENCE.search(named):
        metric = _DIFFERENCE.sub("", named)
        return metric, "model minus base", metric, variant
    if score.who == AGAINST and ", " in named:
        rate, _, criterion = named.rpartition(", ")
        return f"{AGAINST}, {criterion}", rate, f"win rate, {criterion}", variant
    return named, score.who, named, variant


def counts(results: Results) -> Mapping[tuple[str, str], Mapping[str, int]]:
    """What a reader must know beside the numbers, by data set and contestant; what several scores repeat, once.

    A score of a part of the set, such as one language, counts less than that of the whole.
    """
    found: dict[tuple[str, str], dict[str, int]] = {}
    for score in results.scores:
        measure = score.metric.partition(": ")[0] if ": " in score.metric else ""
        who = measure or score.who
        for what, count in score.counts.items():
            seen = found.setdefault((score.set, who), {})
            seen[what] = max(count, seen.get(what, 0))
    return found


def intervals(scores: Sequence[Score]) -> list[str]:
    """The ways in which intervals were computed, the commonest first."""
    ways = [score.interval for score in scores if score.low is not None]
    return sorted(set(ways), key=lambda way: -ways.count(way))
