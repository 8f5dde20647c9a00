"""A suite's numbers as panels of series, drawn as SVG and PNG: the same bytes for the same numbers and version of matplotlib."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from benchmarks.evaluation.results import AGAINST, Q4, Q8, Results, Score
from benchmarks.evaluation.tables import Block, blocks, titled
from trainers.corpus import Say

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
    panel = Panel(block.title, list(map(titled, block.sets)), "per cent" if block.percent else block.title)
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


STYLES = {"model": ("#0072B2", "o"), "base": ("#D55E00", "s")}
FURTHER = (("#009E73", "D"), ("#CC79A7", "^"), ("#E69F00", "v"), ("#56B4E9", "P"))
PUBLISHED_COLOURS = {Q4: "#a3a3a3", Q8: "#757575"}
INK, PAPER = "#1b1c1e", "#fdfdfc"  # the report turns these into the page's own
PUBLISHED = "published"
COLUMNS = 3
SIZE, ALONE = (4.6, 3.7), 7.0  # inches of a panel, and the width of one that is alone
NAME = 2.4  # inches of a name in the legend
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "spyrl",
    "text.parse_math": False,
    "font.size": 9,
    "axes.titlesize": 10,
}
SETTINGS |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)


def draw(results: Results, folder: Path, say: Say = print) -> list[Path]:
    """Write ``plot.svg`` and ``plot.png``; says why not where matplotlib is missing or there is nothing to draw."""
    found = panels(results)
    if not found:
        say(f"{results.suite}: no plot, as there is no number to draw")
        return []
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        say(f"{results.suite}: no plot, as it needs the plot extra: pip install 'spy-env[plot]'")
        return []
    rows = -(-len(found) // COLUMNS)
    columns = -(-len(found) // rows)
    with matplotlib.rc_context(SETTINGS):
        size = (SIZE[0] * columns if columns > 1 else ALONE, SIZE[1] * rows + 0.5)
        figure = Figure(figsize=size, facecolor=PAPER, layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        styles = _styles(found)
        for panel, ax in zip(found, axes, strict=False):
            _panel(ax, panel, styles)
        for ax in axes[len(found) :]:
            ax.set_axis_off()
        _legend(figure, axes)
        files = [folder / "plot.svg", folder / "plot.png"]
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(files[0], metadata={"Date": None, "Creator": None})
        figure.savefig(files[1], dpi=150, metadata={"Software": None})
    return files


def _styles(found: Sequence[Panel]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each series, the same in all panels."""
    named = dict.fromkeys(name for panel in found for name in panel.series)
    others = [name for name in named if name not in STYLES]
    return {**STYLES, **{name: FURTHER[i % len(FURTHER)] for i, name in enumerate(others)}}


def _panel(ax: Any, panel: Panel, styles: Mapping[str, tuple[str, str]]) -> None:
    ax.set_facecolor(PAPER)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color=INK, alpha=0.12)
    if panel.level is not None:
        ax.axhline(panel.level, color=INK, alpha=0.5, linewidth=1, linestyle="--")
    columns = len(panel.series) + bool(panel.published)
    step = min(0.16, 0.7 / columns)  # side by side, so that nothing covers an interval
    for number, (name, points) in enumerate(panel.series.items()):
        _series(ax, panel, name, points, (number - (columns - 1) / 2) * step, styles[name])
    for row, values in panel.published.items():
        _published(ax, row, [values.get(x) for x in panel.xs], (columns - 1) / 2 * step)
    crowded = not panel.joined and max(map(len, panel.xs)) * len(panel.xs) > 40
    places = list(range(len(panel.xs)))
    ax.set_xticks(places, panel.xs, rotation=30 if crowded else 0, ha="right" if crowded else "center")
    ax.set_xlim(-0.6, len(panel.xs) - 0.4)
    if panel.y_range:
        ax.set_ylim(*panel.y_range)
    ax.set_title("\n".join(wrap(panel.title, 44)))
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)


def _series(
    ax: Any, panel: Panel, name: str, points: Sequence[Point | None], aside: float, style: tuple[str, str]
) -> None:
    at = [(place + aside, point) for place, point in enumerate(points) if point]
    if not at:
        return
    ax.errorbar(
        [x for x, _ in at],
        [point.value for _, point in at],
        yerr=[[_length(point, point.low) for _, point in at], [_length(point, point.high) for _, point in at]],
        label=name,
        color=style[0],
        marker=style[1],
        markersize=5,
        linestyle="-" if panel.joined else "",
        linewidth=1.2,
        capsize=2.5,
    )


def _length(point: Point, end: float | None) -> float:
    """How far an interval reaches to one side; nowhere where it has no end."""
    return 0.0 if end is None else abs(point.value - end)


def _published(ax: Any, row: tuple[str, str], values: Sequence[float | None], aside: float) -> None:
    """A published row: hollow before training, a star after it."""
    backbone, method = row
    at = [(place + aside, value) for place, value in enumerate(values) if value is not None]
    shape = {"marker": "*", "markersize": 8} if method else {"marker": "o", "markersize": 5, "fillstyle": "none"}
    label = f"{PUBLISHED}: {backbone}{' + ' if method else ''}{method}"
    ax.plot(*zip(*at, strict=True), linestyle="", color=PUBLISHED_COLOURS[backbone], label=label, **shape)


def _legend(figure: Any, axes: Sequence[Any]) -> None:
    """One legend for all panels, under them, with what is published last."""
    named: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        named |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in named}
    order = sorted(named, key=lambda label: label.startswith(PUBLISHED))
    across = min(len(order), int(figure.get_figwidth() / NAME))
    figure.legend([named[label] for label in order], order, loc="outside lower center", ncols=across, frameon=False)
