"""A suite's numbers as panels of series, drawn as SVG and PNG: the same bytes for the same numbers and version of matplotlib."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from math import isnan
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

STYLES = {"model": ("#0072B2", "o"), "base": ("#D55E00", "s")}  # colour and marker
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
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}


class Point(NamedTuple):
    """A value with its 95 % interval, as the axis shows it."""

    value: float
    low: float | None
    high: float | None


@dataclass(slots=True)
class Panel:
    """One set of axes. Each series has a point, or None, for each of ``xs``."""

    title: str
    xs: list[str]
    y_label: str
    x_label: str = ""
    series: dict[str, list[Point | None]] = field(default_factory=dict)
    published: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)  # backbone and method: by x
    level: float | None = None  # a line at the value that means no difference
    joined: bool = False  # the xs are numbers: points are joined by a line
    y_range: tuple[float, float] | None = None

    def add(self, name: str, scores: Sequence[Score | None]) -> None:
        """Add a series from the score at each x."""
        self.series[name] = [None if score is None else point(score) for score in scores]

    def add_published(self, block: Block, set_at: Mapping[str, str]) -> None:
        """Add a block's published values; ``set_at`` maps xs to data sets."""
        for row in block.published:
            values = {x: row.values[name] for x, name in set_at.items() if name in row.values}
            if values and row.method in PUBLISHED_METHODS:
                self.published.setdefault((row.backbone, row.method), {}).update(values)


def point(score: Score) -> Point | None:
    """Return a score as its axis shows it; None where there is nothing to show."""
    if isnan(score.value):
        return None
    scale = 100.0 if score.percent else 1.0
    low, high = (None if end is None else end * scale for end in (score.low, score.high))
    return Point(score.value * scale, low, high)


def panels(results: Results) -> list[Panel]:
    """Return the panels of a suite's plot; of the alignment study, those of mean ranks alone."""
    arranged = blocks(results)
    if ranks := [panel for block in arranged if (panel := _ranks(block))]:
        return ranks
    rates = [block for block in arranged if block.title.startswith(f"{AGAINST}, ")]
    others = [_values(block) for block in arranged if block not in rates and block.title not in TABLE_ONLY]
    return [panel for panel in [*others, *_rates(rates)] if any(map(any, panel.series.values()))]


def _values(block: Block) -> Panel:
    """Plot a metric: contestants by data set."""
    panel = Panel(block.title, list(map(titled, block.sets)), "per cent" if block.percent else block.title)
    for row, scores in block.rows.items():
        if row not in DIFFERENCES:
            panel.add(row, [scores.get(name) for name in block.sets])
    panel.add_published(block, dict(zip(panel.xs, block.sets, strict=True)))
    return panel


def _rates(criteria: Sequence[Block]) -> list[Panel]:
    """Plot win rates: by data set where there is one criterion, else by criterion, with a panel for each data set."""
    sets = list(dict.fromkeys(name for block in criteria for name in block.sets))
    if len(criteria) == 1:
        return [_rate_panel(criteria[0].title, [(titled(name), criteria[0], name) for name in sets])]
    named = [(block.title.removeprefix(f"{AGAINST}, "), block) for block in criteria]
    return [
        _rate_panel(f"{AGAINST}, {titled(name)}", [(criterion, block, name) for criterion, block in named])
        for name in sets
    ]


def _rate_panel(title: str, columns: Sequence[tuple[str, Block, str]]) -> Panel:
    """Plot win rates; each column has its x, its block and its data set."""
    panel = Panel(title, [x for x, _, _ in columns], "pairs won, per cent", level=50.0)
    for rate in RATES:
        panel.add(rate, [block.rows.get(rate, {}).get(name) for _, block, name in columns])
    for x, block, name in columns:
        panel.add_published(block, {x: name})
    return panel


def _ranks(block: Block) -> Panel | None:
    """Plot the mean rank by votes received, a line for each task; None for a block without mean ranks."""
    by_votes = {int(votes[1]): scores for row, scores in block.rows.items() if (votes := MEAN_RANK.fullmatch(row))}
    if not by_votes:
        return None
    received = sorted(by_votes)
    panel = Panel(block.title, list(map(str, received)), "mean rank (1 is best)", "votes received", joined=True)
    for name in block.sets:
        panel.add(name, [by_votes[number].get(name) for number in received])
    known = [score for scores in by_votes.values() for score in scores.values() if not isnan(score.value)]
    if outputs := sum(score.n for score in known):  # ranks of a game always have the same mean, (1 + last) / 2
        panel.level = sum(score.value * score.n for score in known) / outputs
        panel.y_range = (0.8, 2 * panel.level - 0.8)
    return panel


def draw(results: Results, folder: Path, say: Say = print) -> list[Path]:
    """Write ``plot.svg`` and ``plot.png``; say why not where matplotlib is missing or there is nothing to draw."""
    drawn = panels(results)
    if not drawn:
        say(f"{results.suite}: no plot, as there is no number to draw")
        return []
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        say(f"{results.suite}: no plot, as matplotlib is missing; install it with pip install -e '.[plot]'")
        return []
    rows = -(-len(drawn) // COLUMNS)
    columns = -(-len(drawn) // rows)
    size = (SIZE[0] * columns if columns > 1 else ALONE, SIZE[1] * rows + 0.5)
    folder.mkdir(parents=True, exist_ok=True)
    svg, png = folder / "plot.svg", folder / "plot.png"
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=size, facecolor=PAPER, layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        styles = _styles(drawn)
        for panel, ax in zip(drawn, axes, strict=False):
            _draw_panel(ax, panel, styles)
        for ax in axes[len(drawn) :]:
            ax.set_axis_off()
        _draw_legend(figure, axes)
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
        figure.savefig(png, dpi=150, metadata={"Software": None})
    return [svg, png]


def _styles(drawn: Sequence[Panel]) -> dict[str, tuple[str, str]]:
    """Return a colour and a marker for each series, the same in all panels."""
    others = dict.fromkeys(name for panel in drawn for name in panel.series if name not in STYLES)
    return STYLES | dict(zip(others, cycle(FURTHER), strict=False))


def _draw_panel(ax: Any, panel: Panel, styles: Mapping[str, tuple[str, str]]) -> None:
    ax.set_facecolor(PAPER)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color=INK, alpha=0.12)
    if panel.level is not None:
        ax.axhline(panel.level, color=INK, alpha=0.5, linewidth=1, linestyle="--")
    # Series are side by side, so that nothing covers an interval; published rows share the last place.
    columns = len(panel.series) + bool(panel.published)
    step = min(0.16, 0.7 / columns)
    for number, (name, points) in enumerate(panel.series.items()):
        _draw_series(ax, name, points, (number - (columns - 1) / 2) * step, styles[name], panel.joined)
    for (backbone, method), values in panel.published.items():
        _draw_published(ax, backbone, method, [values.get(x) for x in panel.xs], (columns - 1) / 2 * step)
    crowded = not panel.joined and max(map(len, panel.xs)) * len(panel.xs) > 40
    ax.set_xticks(range(len(panel.xs)), panel.xs, rotation=30 if crowded else 0, ha="right" if crowded else "center")
    ax.set(xlim=(-0.6, len(panel.xs) - 0.4), xlabel=panel.x_label, ylabel=panel.y_label)
    ax.set_title("\n".join(wrap(panel.title, 44)))
    if panel.y_range:
        ax.set_ylim(*panel.y_range)


def _draw_series(
    ax: Any, name: str, points: Sequence[Point | None], aside: float, style: tuple[str, str], joined: bool
) -> None:
    at = [(place + aside, point) for place, point in enumerate(points) if point]
    if not at:
        return
    # an interval without an end reaches nowhere
    below = [0.0 if point.low is None else abs(point.value - point.low) for _, point in at]
    above = [0.0 if point.high is None else abs(point.value - point.high) for _, point in at]
    ax.errorbar(
        [x for x, _ in at],
        [point.value for _, point in at],
        yerr=[below, above],
        label=name,
        color=style[0],
        marker=style[1],
        markersize=5,
        linestyle="-" if joined else "",
        linewidth=1.2,
        capsize=2.5,
    )


def _draw_published(ax: Any, backbone: str, method: str, values: Sequence[float | None], aside: float) -> None:
    """Draw a published row: hollow before training, a star after it."""
    at = [(place + aside, value) for place, value in enumerate(values) if value is not None]
    shape = {"marker": "*", "markersize": 8} if method else {"marker": "o", "markersize": 5, "fillstyle": "none"}
    label = f"{PUBLISHED}: {backbone}{' + ' if method else ''}{method}"
    ax.plot(*zip(*at, strict=True), linestyle="", color=PUBLISHED_COLOURS[backbone], label=label, **shape)


def _draw_legend(figure: Any, axes: Sequence[Any]) -> None:
    """Draw one legend for all panels, under them, with published rows last."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    order = sorted(handles, key=lambda label: label.startswith(PUBLISHED))
    across = min(len(order), int(figure.get_figwidth() / NAME))
    figure.legend([handles[label] for label in order], order, loc="outside lower center", ncols=across, frameon=False)
