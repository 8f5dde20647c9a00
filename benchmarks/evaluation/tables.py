"""A suite's numbers arranged as they are read, and as Markdown: tables, published rows, what was left out, the protocol."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.evaluation.results import SOURCE, Published, Results, Score, beside, shown

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


WIDTH = 120  # characters of a table before its further columns come in a table below
NOTHING = "–"


def markdown(results: Results, about: Mapping[str, Any]) -> str:
    """The whole suite. ``about`` is what ``write_results`` is given: who was evaluated, with which settings."""
    lines = [f"# {results.suite}", ""]
    lines += [f"- {name}: {text(called(about[name]))}" for name in ("model", "base", "judge") if about.get(name)]
    lines += ["; ".join(["- in brackets: 95 % intervals, from n items", *intervals(results.scores)])]
    found = blocks(results)
    for block in found:
        lines += ["", f"## {text(block.heading + unit(block))}", "", *table(block)]
    if any(block.published for block in found):
        lines += ["", f"Published rows: {SOURCE}."]
    lines += section("Counted", list(map(text, counted(results)))) + section("Notes", list(map(text, results.notes)))
    lines += section("Protocol", list(map(text, told(results.protocol))))
    return "\n".join(lines) + "\n"


def called(who: Any) -> str:
    """A contestant's or judge's name, as results tell it."""
    return str(who["name"]) if isinstance(who, Mapping) and "name" in who else str(who)


def table(block: Block) -> list[str]:
    """One metric; in several tables where the data sets' columns are wider than a terminal."""
    lines: list[str] = []
    sets = block.sets
    while sets:
        fitting = next(count for count in range(len(sets), 0, -1) if count == 1 or _fits(_cells(block, sets[:count])))
        lines += [*([""] if lines else []), *_lines(_cells(block, sets[:fitting]))]
        sets = sets[fitting:]
    return lines


def cells(block: Block, sets: Sequence[str]) -> list[list[str]]:
    """The cells of some data sets' columns, heads included."""
    grid = [["", *map(block.column, sets)]]
    grid += [[label(row, block), *(cell(scores.get(name)) for name in sets)] for row, scores in block.rows.items()]
    for row in block.published:
        if any(name in row.values for name in sets):
            rate = "" if block.lead == block.title else f" {block.lead.partition(',')[0]}"
            grid.append([f"published{rate}: {row.label}", *(_published(row, name) for name in sets)])
    return grid


def _cells(block: Block, sets: Sequence[str]) -> list[list[str]]:
    return [[text(value) for value in row] for row in cells(block, sets)]


def _fits(grid: Sequence[Sequence[str]]) -> bool:
    """Whether a table fits a terminal."""
    return sum(max(map(width, column)) + 3 for column in zip(*grid, strict=True)) + 1 <= WIDTH


def label(row: str, block: Block) -> str:
    """A row's name; it says so where its numbers aren't per cent while others' are."""
    units = {score.percent for scores in block.rows.values() for score in scores.values()}
    percent = all(score.percent for score in block.rows[row].values())
    return f"{row}, %" if len(units) > 1 and percent else row


def unit(block: Block) -> str:
    """What a block's heading adds where all of its numbers are per cent."""
    return ", %" if all(score.percent for scores in block.rows.values() for score in scores.values()) else ""


def cell(score: Score | None) -> str:
    """A number with its interval and n."""
    return NOTHING if score is None else f"{shown(score)}, n {score.n}"


def _published(row: Published, name: str) -> str:
    return f"{row.values[name]:.1f}" if name in row.values else NOTHING


def _lines(grid: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(width, column)) for column in zip(*grid, strict=True)]
    lines = ["| " + " | ".join(_padded(row, widths)) + " |" for row in grid]
    return [
        lines[0],
        "|" + "|".join("-" * (wide + 1) + (":" if i else "-") for i, wide in enumerate(widths)) + "|",
        *lines[1:],
    ]


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The first column from the left, numbers to the right."""
    spaces = [" " * (wide - width(value)) for value, wide in zip(row, widths, strict=True)]
    return [row[0] + spaces[0], *(space + value for value, space in zip(row[1:], spaces[1:], strict=True))]


def width(value: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in value)


def text(value: str) -> str:
    """Text on one line that Markdown shows as it is: no mark-up, no end of a cell."""
    for sign in ("\\", "|", "<", "`"):
        value = value.replace(sign, f"\\{sign}")
    return " ".join(value.split())


def counted(results: Results) -> list[str]:
    """What was left out, cut, empty or unreadable, a line for each data set."""
    by_set: dict[str, list[str]] = {}
    for (name, who), found in counts(results).items():
        by_set.setdefault(name, []).append(f"{who}: " + ", ".join(f"{count} {what}" for what, count in found.items()))
    return [f"{titled(name)}: " + "; ".join(told) for name, told in by_set.items()]


def told(protocol: Mapping[str, Any]) -> list[str]:
    """A protocol or settings, one line a point."""
    return [
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in protocol.items()
    ]


def section(title: str, points: Sequence[str]) -> list[str]:
    """A heading with a list under it; nothing where there are no points."""
    return ["", f"## {title}", "", *(f"- {point}" for point in points)] if points else []
