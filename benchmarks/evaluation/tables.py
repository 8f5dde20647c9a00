"""A suite's numbers arranged for reading, and as Markdown: tables, published rows, counts, notes, the protocol."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.evaluation.results import AGAINST, SOURCE, Published, Results, Score, beside, shown

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
WIDTH = 120  # characters of a table before its further columns come in a table below
NOTHING = "–"
NOT_PUBLISHED = {"zero-shot", "partly few-shot"}  # the published SAMSum has examples
_VARIANT = re.compile(
    r" \(([^()]*(?:\([^()]*\)[^()]*)*)\)|, ((?:partly )?few-shot|zero-shot|greedy|mean of \d+ samples)"
)
_DIFFERENCE = re.compile(r", difference$|^difference of ")


@dataclass(slots=True)
class Block:
    """One metric of a suite: rows of scores by data set, and published rows to put under them."""

    title: str
    lead: str  # the metric under which published rows are looked for
    rows: dict[str, dict[str, Score]] = field(default_factory=dict)
    variants: dict[str, list[str]] = field(default_factory=dict)  # of the metric, by data set
    published: list[Published] = field(default_factory=list)

    @property
    def sets(self) -> list[str]:
        """The data sets, in the order of the scores."""
        return list(self.variants)

    @property
    def percent(self) -> bool:
        """Whether all numbers are shown as per cent."""
        return all(score.percent for scores in self.rows.values() for score in scores.values())

    @property
    def heading(self) -> str:
        """The title, the parts of the variant that all data sets share, and the unit."""
        return _with_variant(self.title, self._shared()) + (", %" if self.percent else "")

    def column(self, name: str) -> str:
        """Return the head of a data set's column: its title, and the parts of its variant that others don't share."""
        shared = self._shared()
        return _with_variant(titled(name), [part for part in self.variants[name] if part not in shared])

    def label(self, row: str) -> str:
        """Return the name of a row; it names per cent where other rows of the block aren't per cent."""
        percent = all(score.percent for score in self.rows[row].values())
        return f"{row}, %" if percent and not self.percent else row

    def _shared(self) -> list[str]:
        first, *others = self.variants.values()
        return [part for part in first if all(part in other for other in others)]


def titled(name: str) -> str:
    """Return a data set's title; the name itself where we know none, as for a task of the alignment study."""
    return TITLES.get(name, name)


def _with_variant(name: str, variant: Sequence[str]) -> str:
    return f"{name} ({', '.join(variant)})" if variant else name


def blocks(results: Results) -> list[Block]:
    """Arrange a suite's scores in blocks, in the order of the scores."""
    by_title: dict[str, Block] = {}
    for score in results.scores:
        title, row, lead, variant = _place(score)
        block = by_title.setdefault(title, Block(title, lead))
        block.rows.setdefault(row, {})[score.set] = score
        if not block.variants.get(score.set):
            block.variants[score.set] = variant  # some rows' metrics don't name it
    for block in by_title.values():
        comparable = [name for name in block.sets if NOT_PUBLISHED.isdisjoint(block.variants[name])]
        block.published = beside(results.suite, block.lead, comparable)
    return list(by_title.values())


def _place(score: Score) -> tuple[str, str, str, list[str]]:
    """Return the title of a score's block, its row there, the block's ``lead``, and the score's variant."""
    measure, colon, row = score.metric.partition(": ")
    if colon:  # one of the many numbers of a measure
        return measure, row, measure, []
    name = _VARIANT.sub("", score.metric)
    variant = ", ".join(in_brackets or bare for in_brackets, bare in _VARIANT.findall(score.metric))
    parts = variant.split(", ") if variant else []
    if _DIFFERENCE.search(name):
        metric = _DIFFERENCE.sub("", name)
        return metric, "model minus base", metric, parts
    if score.who == AGAINST and ", " in name:
        rate, _, criterion = name.rpartition(", ")
        return f"{AGAINST}, {criterion}", rate, f"win rate, {criterion}", parts
    return name, score.who, name, parts


def cells(block: Block, sets: Sequence[str]) -> list[list[str]]:
    """Return the cells of some data sets' columns, heads included."""
    grid = [["", *map(block.column, sets)]]
    for row, scores in block.rows.items():
        grid.append([block.label(row), *(_cell(scores.get(name)) for name in sets)])
    rate = "" if block.lead == block.title else f" {block.lead.partition(',')[0]}"
    for published in block.published:
        values = [f"{published.values[name]:.1f}" if name in published.values else NOTHING for name in sets]
        if set(values) != {NOTHING}:
            grid.append([f"published{rate}: {published.label}", *values])
    return grid


def _cell(score: Score | None) -> str:
    return NOTHING if score is None else f"{shown(score)}, n {score.n}"


def markdown(results: Results, about: Mapping[str, Any]) -> str:
    """Return the whole suite as Markdown; ``about`` as in ``write_results``."""
    lines = [f"# {results.suite}", ""]
    lines += [f"- {role}: {text(name_of(about[role]))}" for role in ("model", "base", "judge") if about.get(role)]
    lines += ["; ".join(["- in brackets: 95 % intervals, from n items", *intervals(results.scores)])]
    arranged = blocks(results)
    for block in arranged:
        lines += ["", f"## {text(block.heading)}", "", *_table(block)]
    if any(block.published for block in arranged):
        lines += ["", f"Published rows: {SOURCE}."]
    lists = {"Counted": counted(results), "Notes": results.notes, "Protocol": points(results.protocol)}
    for title, items in lists.items():
        if items:
            lines += ["", f"## {title}", "", *(f"- {text(item)}" for item in items)]
    return "\n".join(lines) + "\n"


def name_of(who: Any) -> str:
    """Return the name of a contestant or judge in ``about``."""
    return str(who["name"]) if isinstance(who, Mapping) and "name" in who else str(who)


def intervals(scores: Sequence[Score]) -> list[str]:
    """Return the methods by which intervals were computed, the commonest first."""
    methods = [score.interval for score in scores if score.low is not None]
    return sorted(set(methods), key=lambda method: -methods.count(method))


def counted(results: Results) -> list[str]:
    """Return a line per data set: the answers that were left out, cut, empty or unreadable.

    Counts that several scores repeat come once. A part of the set, such as one language, counts less than the whole.
    """
    by_set: dict[str, dict[str, dict[str, int]]] = {}
    for score in results.scores:
        measure, colon, _ = score.metric.partition(": ")
        for reason, count in score.counts.items():
            counts = by_set.setdefault(score.set, {}).setdefault(measure if colon else score.who, {})
            counts[reason] = max(count, counts.get(reason, 0))
    lines = []
    for name, by_who in by_set.items():
        listed = [", ".join([f"{count} {reason}" for reason, count in counts.items()]) for counts in by_who.values()]
        lines.append(f"{titled(name)}: " + "; ".join(map(": ".join, zip(by_who, listed, strict=True))))
    return lines


def points(protocol: Mapping[str, Any]) -> list[str]:
    """Return a protocol or settings, one line per point."""
    return [
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in protocol.items()
    ]


def text(value: str) -> str:
    """Return text on one line that Markdown shows as it is: no mark-up, no end of a cell."""
    for sign in ("\\", "|", "<", "`"):
        value = value.replace(sign, f"\\{sign}")
    return " ".join(value.split())


def _table(block: Block) -> list[str]:
    """Return the lines of one metric's table; of several tables where its columns are wider than a terminal."""
    lines: list[str] = []
    sets = block.sets
    while sets:
        for count in range(len(sets), 0, -1):
            grid = [list(map(text, row)) for row in cells(block, sets[:count])]
            widths = [max(map(width, column)) for column in zip(*grid, strict=True)]
            if sum(widths) + 3 * len(widths) + 1 <= WIDTH:
                break
        lines += [*([""] if lines else []), *_aligned(grid, widths)]
        sets = sets[count:]
    return lines


def _aligned(grid: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Return a table's lines; the first column begins on the left, numbers end on the right."""
    lines = []
    for row in grid:
        first, *others = [" " * (wide - width(value)) for value, wide in zip(row, widths, strict=True)]
        values = [row[0] + first, *(space + value for space, value in zip(others, row[1:], strict=True))]
        lines.append(f"| {' | '.join(values)} |")
    first_rule, *rules = ["-" * (wide + 1) for wide in widths]
    return [lines[0], f"|{'|'.join([first_rule + '-', *(rule + ':' for rule in rules)])}|", *lines[1:]]


def width(value: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in value)
