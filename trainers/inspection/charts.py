"""Line charts and stage bands as SVG, drawn here: nothing is fetched, no script runs, colours follow the page's theme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

WIDTH, HEIGHT = 440, 220  # of the drawing's own units; the page scales it
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 24
DASHES = ("", "7 4", "2 3", "9 3 2 3")
POINTS = 300  # a curve of more is drawn by the means of as many stretches
FEW = 12  # points that are also drawn as dots
Point = tuple[float, float]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: of the run ``run`` (which gives its colour), as the ``line``-th quantity of the figure (its dashes)."""

    label: str
    run: int
    line: int
    points: Sequence[Point]
    intervals: Sequence[Interval] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        """How far to the right."""
        return LEFT + (value - self.x_low) / ((self.x_high - self.x_low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """How far down."""
        return HEIGHT - BOTTOM - (value - self.y_low) / ((self.y_high - self.y_low) or 1) * (HEIGHT - TOP - BOTTOM)


def line_chart(title: str, series: Sequence[Series], shares: bool = False, marks: Sequence[float] = ()) -> str:
    """Curves over iterations; ``marks`` are levels to compare with. Nothing to draw gives an empty text."""
    drawn = [one for one in series if one.points]
    if not drawn:
        return ""
    scale = _scale(drawn, shares, marks)
    parts = [*_axes(scale), *(_mark(scale, level) for level in marks)]
    parts += [part for one in drawn for part in _curve(scale, one)]
    return _svg(title, HEIGHT, parts)


def stage_bands(rows: Sequence[tuple[str, Sequence[tuple[int, str]]]]) -> str:
    """A band a run, coloured by the stage that each iteration trained."""
    steps = [step for _, stages in rows for step, _ in stages]
    if not steps:
        return ""
    scale = Scale(min(steps) - 0.5, max(steps) + 0.5, 0, 1)
    parts = [
        _text(scale.x(step), 26 * len(rows) + 14, "middle", f"{step}") for step in sorted({min(steps), max(steps)})
    ]
    for number, (name, stages) in enumerate(rows):
        for first, last, stage in _stretches(stages):
            begin, end = scale.x(first - 0.5), scale.x(last + 0.5)
            told = escape(f"{name}: {stage}, iterations {first} to {last}")
            parts.append(
                f'<rect class="stage {escape(stage, quote=True)}" x="{begin:.1f}" y="{26 * number + 4}" '
                f'width="{end - begin:.1f}" height="20"><title>{told}</title></rect>'
            )
        parts.append(f'<rect class="run r{number % 8}" x="{LEFT - 14}" y="{26 * number + 4}" width="8" height="20"/>')
    return _svg("Trained stage by iteration", 26 * len(rows) + 20, parts)


def _stretches(stages: Sequence[tuple[int, str]]) -> list[tuple[int, int, str]]:
    """Iterations that follow one another in one stage: the first, the last, the stage."""
    found: list[tuple[int, int, str]] = []
    for step, stage in stages:
        if found and found[-1][2] == stage and step == found[-1][1] + 1:
            found[-1] = (found[-1][0], step, stage)
        else:
            found.append((step, step, stage))
    return found


def _scale(series: Sequence[Series], shares: bool, marks: Sequence[float]) -> Scale:
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points] + [
        end for one in series for pair in one.intervals for end in pair
    ]
    ys += [0.0, 1.0] if shares else list(marks)
    low, high = min(ys), max(ys)
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    return Scale(min(xs), max(xs), low, high)


def _axes(scale: Scale) -> list[str]:
    parts = []
    for value in ticks(scale.y_low, scale.y_high):
        y = scale.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 6, y + 4, "end", f"{value:zg}" if abs(value) >= 1e-12 else "0"))
    for value in ticks(scale.x_low, scale.x_high):
        if value == int(value):
            parts.append(_text(scale.x(value), HEIGHT - 6, "middle", f"{value:g}"))
    return parts


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values from ``low`` to ``high``, in steps of 1, 2 or 5 times a power of ten."""
    if low == high:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** floor(log10(rough))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)
    digits = max(0, 2 - floor(log10(step)))
    return [round(i * step, digits) for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _curve(scale: Scale, one: Series) -> list[str]:
    points = _thinned(one.points)
    places = [(scale.x(x), scale.y(y)) for x, y in points]
    pieces = _unbroken(points)
    look = f'class="curve r{one.run % 8}" stroke-dasharray="{DASHES[one.line % len(DASHES)]}"'
    told = f"<title>{escape(one.label)}</title>"
    parts = [
        f'<polyline {look} points="{" ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in piece)}">{told}</polyline>'
        for piece in pieces
        if len(piece) > 1
    ]
    alone = {piece[0] for piece in pieces if len(piece) == 1}
    if len(points) <= FEW or alone:
        parts += [
            f'<circle class="dot r{one.run % 8}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
            f"<title>{escape(f'{one.label}: {value:.4g} at {step:g}')}</title></circle>"
            for (x, y), (step, value) in zip(places, points, strict=True)
            if len(points) <= FEW or (step, value) in alone
        ]
    for (x, _), (low, high) in zip(places, one.intervals, strict=False):
        parts.append(
            f'<line class="whisker r{one.run % 8}" x1="{x:.1f}" x2="{x:.1f}" y1="{scale.y(low):.1f}" y2="{scale.y(high):.1f}"/>'
        )
    return parts


def _unbroken(points: Sequence[Point]) -> list[list[Point]]:
    """Points without a gap: where an iteration doesn't tell the quantity, nothing is drawn."""
    nearest = min((b[0] - a[0] for a, b in pairwise(points)), default=0)
    pieces: list[list[Point]] = []
    for point in points:
        if pieces and point[0] - pieces[-1][-1][0] <= 1.5 * nearest:
            pieces[-1].append(point)
        else:
            pieces.append([point])
    return pieces


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    size = ceil(len(points) / POINTS)
    stretches = [points[i : i + size] for i in range(0, len(points), size)] if size > 1 else []
    return [(sum(x for x, _ in some) / len(some), sum(y for _, y in some) / len(some)) for some in stretches] or points


def _mark(scale: Scale, level: float) -> str:
    y = scale.y(level)
    return f'<line class="mark" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"><title>{level:.3g}</title></line>'


def _text(x: float, y: float, anchor: str, said: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    label = escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
