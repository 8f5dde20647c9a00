"""Draw a suite's panels as SVG and PNG: the same bytes for the same numbers and version of matplotlib.

Colours are Okabe and Ito's, told apart by the colour-blind, and every series has a marker of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from benchmarks.evaluation.panels import Panel, Point, panels
from benchmarks.evaluation.published import Q4, Q8
from benchmarks.evaluation.results import Results
from benchmarks.evaluation.run import Say

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
