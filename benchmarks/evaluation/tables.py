"""A suite as Markdown that reads well in a terminal: tables, published rows, what was left out, the protocol."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.evaluation.blocks import Block, blocks, counts, intervals, titled
from benchmarks.evaluation.published import SOURCE, Published
from benchmarks.evaluation.results import Results, Score, shown

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
