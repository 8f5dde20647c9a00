"""What a suite's plot shows, as plain values: panels of series with intervals, before anything is drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.evaluation.blocks import AGAINST, Block, blocks, titled
from benchmarks.evaluation.results import Results, Score

DIFFERENCES = ("model minus base",)  # small beside the values themselves: in the table only
TABLE_ONLY = ("truncated texts", "empty texts", "games")  # counts rather than qualities
RATES = ("win rate", "length-controlled win rate")
PUBLISHED_METHODS = ("", "SpyRL")  # the other published methods are in the table
MEAN_RANK = re.compile(r"mean rank, (\d+) votes?")


class Point(NamedTuple):
    """A value with its 95 % interval, as the axis shows it."""

    value: float
    low: float | None
    high: float | None


@dataclass(slots=True)
class Panel:
    """One set of axes. Each series has a point, or None, for each of ``xs``; ``level`` is what means nothing found."""

    title: str
    xs: list[str]
    y_label: str
    x_label: str = ""
    series: dict[str, list[Point | None]] = field(default_factory=dict)
    published: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)  # backbone and method: by x
    level: float | None = None
    joined: bool = False  # the xs are numbers: points are joined by a line
    y_range: tuple[float, float] | None = None


def panels(results: Results) -> list[Panel]:
    """The panels of a suite's plot."""
    found = blocks(results)
    ranked = [panel for block in found if (panel := _ranks(block))]
    if ranked:
        return ranked
    rates = [block for block in found if block.title.startswith(f"{AGAINST}, ")]
    others = [_values(block) for block in found if block not in rates and block.title not in TABLE_ONLY]
    return [panel for panel in [*others, *_rates(rates)] if any(map(any, panel.series.values()))]


def _values(block: Block) -> Panel:
    """A metric: contestants by data set."""
    percent = all(score.percent for scores in block.rows.values() for score in scores.values())
    panel = Panel(block.title, list(map(titled, block.sets)), "per cent" if percent else block.title)
    for row, scores in block.rows.items():
        if row not in DIFFERENCES:
            panel.series[row] = [point(scores.get(name)) for name in block.sets]
    _beside(panel, block, panel.xs, block.sets)
    return panel


def _beside(panel: Panel, block: Block, xs: Sequence[str], sets: Sequence[str]) -> None:
    for row in block.published:
        if row.method in PUBLISHED_METHODS and any(name in row.values for name in sets):
            shown = panel.published.setdefault((row.backbone, row.method), {})
            shown |= {x: row.values[name] for x, name in zip(xs, sets, strict=True) if name in row.values}


def _rates(found: Sequence[Block]) -> list[Panel]:
    """Win rates: by data set where there is one criterion, else by criterion, a panel for each data set."""
    if len(found) == 1:
        sets = found[0].sets
        panel = Panel(found[0].title, list(map(titled, sets)), "pairs won, per cent", level=50.0)
        for rate in RATES:
            panel.series[rate] = [point(found[0].rows.get(rate, {}).get(name)) for name in sets]
        _beside(panel, found[0], panel.xs, sets)
        return [panel]
    made = []
    for name in dict.fromkeys(name for block in found for name in block.sets):
        criteria = [block.title.removeprefix(f"{AGAINST}, ") for block in found]
        panel = Panel(f"{AGAINST}, {titled(name)}", criteria, "pairs won, per cent", level=50.0)
        for rate in RATES:
            panel.series[rate] = [point(block.rows.get(rate, {}).get(name)) for block in found]
        for block, criterion in zip(found, criteria, strict=True):
            _beside(panel, block, [criterion], [name])
        made.append(panel)
    return made


def _ranks(block: Block) -> Panel | None:
    """The alignment study: mean rank by votes received, a line for each task."""
    by_votes = {int(votes[1]): scores for row, scores in block.rows.items() if (votes := MEAN_RANK.fullmatch(row))}
    if not by_votes:
        return None
    received = sorted(by_votes)
    panel = Panel(block.title, list(map(str, received)), "mean rank (1 is best)", "votes received", joined=True)
    for name in block.sets:
        panel.series[name] = [point(by_votes[number].get(name)) for number in received]
    told = [score for scores in by_votes.values() for score in scores.values() if score.value == score.value]
    outputs = sum(score.n for score in told)
    if outputs:  # ranks of a game always have the same mean, (1 + last) / 2
        panel.level = sum(score.value * score.n for score in told) / outputs
        panel.y_range = (0.8, 2 * panel.level - 0.8)
    return panel


def point(score: Score | None) -> Point | None:
    """A score as its axis shows it; None where there is nothing to show."""
    if score is None or score.value != score.value:
        return None
    scale = 100.0 if score.percent else 1.0
    low, high = (None if end is None else end * scale for end in (score.low, score.high))
    return Point(score.value * scale, low, high)
