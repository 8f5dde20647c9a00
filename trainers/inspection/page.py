"""The report page of runs: curves as SVG, and the page around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import pairwise
from math import ceil, floor, log10

from spy_env.diagnostics.estimates import Estimate
from trainers.inspection.diagnosis import Judged
from trainers.inspection.figures import FIGURES, MISSING, Figure, rows_of
from trainers.inspection.runs import Run

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


_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head><body>
"""
_ALARM = '<tr class="alarm">'


def page(runs: Sequence[Run], judged: Mapping[str, Judged]) -> str:
    """The whole page as text; ``judged`` by the runs' names."""
    style = files("trainers.inspection").joinpath("page.css").read_text(encoding="utf-8")
    title = "Who is the spy? " + ", ".join(run.name for run in runs)
    parts = [
        _HEAD.format(title=escape(title), style=style),
        f"<h1>{escape(title)}</h1>{_legend(runs)}",
        _warnings(runs, judged),
        "<h2>Figures</h2>",
        f'<div class="figures">{_stages(runs)}{"".join(_figure(figure, runs) for figure in FIGURES)}{_votes(runs, judged)}</div>',
        _missing(runs),
        "<h2>What the games say</h2>",
        *(_games(run, judged[run.name]) for run in runs),
        f'<h2>All figures</h2><p class="note">first iterations &gt; last iterations; {MISSING} is missing</p>',
        _table(rows_of(runs)),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _legend(runs: Sequence[Run]) -> str:
    """A colour a run."""
    keys = [
        f'<span><svg viewBox="0 0 24 8"><rect class="run r{number % 8}" width="24" height="8"/></svg>{escape(run.name)}</span>'
        for number, run in enumerate(runs)
    ]
    return f'<p class="legend">{"".join(keys)}</p>'


def _warnings(runs: Sequence[Run], judged: Mapping[str, Judged]) -> str:
    warned = [(run, name, text) for run in runs for name, text in judged[run.name].warnings.items()]
    notes = [(run, note) for run in runs for note in (*run.notes, *judged[run.name].trouble)]
    said = [f"<li><b>{escape(name)}</b> in {escape(run.name)}: {escape(text)}</li>" for run, name, text in warned]
    told = [f'<li class="soft">{escape(run.name)}: {escape(note)}</li>' for run, note in notes]
    unknown = "" if all(judged[run.name].diagnosis for run in runs) else " Not all runs' votes could be judged."
    box = (
        f'<div class="warnings"><b>Warnings</b><ul>{"".join(said)}</ul></div>'
        if said
        else f"<p>No warnings.{unknown}</p>"
    )
    return box + (f"<ul>{''.join(told)}</ul>" if told else "")


def _figure(figure: Figure, runs: Sequence[Run]) -> str:
    metrics = figure.metrics_of(runs)
    if not metrics:
        return ""
    series = [
        Series(f"{run.name}, {label}", number, line, run.curve(metric))
        for number, run in enumerate(runs)
        for line, (label, metric) in enumerate(metrics.items())
    ]
    marks = sorted({run.chance for run in runs if run.chance is not None}) if figure.chance else []
    lacking = [run.name for run in runs if not any(run.curve(metric) for metric in metrics.values())]
    notes = [figure.note, *(["dotted: a vote at random"] if marks else [])]
    notes += [f"missing in {', '.join(lacking)}"] if lacking else []
    return _framed(figure.title, list(metrics), line_chart(figure.title, series, figure.shares, marks), notes)


def _framed(title: str, labels: Sequence[str], drawing: str, notes: Sequence[str]) -> str:
    keys = [
        f'<span><svg viewBox="0 0 24 8"><line class="grid" style="stroke:currentColor" stroke-width="2" x2="24" y1="4" y2="4" '
        f'stroke-dasharray="{DASHES[i % len(DASHES)]}"/></svg>{escape(label)}</span>'
        for i, label in enumerate(labels)
    ]
    legend = f'<div class="legend note">{"".join(keys)}</div>'
    note = "; ".join(filter(None, notes))
    below = f'<div class="note">{escape(note)}</div>' if note else ""
    return f"<figure><figcaption><h3>{escape(title)}</h3>{legend}</figcaption>{drawing}{below}</figure>"


def _stages(runs: Sequence[Run]) -> str:
    drawing = stage_bands([(run.name, run.stages) for run in runs if run.stages])
    if not drawing:
        return ""
    keys = [
        f'<span><svg viewBox="0 0 24 8"><rect class="stage {stage}" width="24" height="8"/></svg>{stage}</span>'
        for stage in sorted({stage for run in runs for _, stage in run.stages} & {"performing", "detection", "joint"})
    ]
    legend = f'<div class="legend note">{"".join(keys)}</div>'
    return f"<figure><figcaption><h3>Trained stage</h3>{legend}</figcaption>{drawing}</figure>"


def _votes(runs: Sequence[Run], judged: Mapping[str, Judged]) -> str:
    """Votes received against what can be counted of quality, by stretches of iterations, with intervals."""
    names = list(dict.fromkeys(name for one in judged.values() for stretch in one.stretches for name in stretch.votes))
    drawn = []
    for name in names:
        series = []
        for number, run in enumerate(runs):
            told = [stretch for stretch in judged[run.name].stretches if name in stretch.votes]
            points = [((one.first + one.last) / 2, one.votes[name].value) for one in told]
            intervals = [(one.votes[name].low, one.votes[name].high) for one in told]
            series.append(Series(f"{run.name}, {name}", number, 0, points, intervals))
        title = f"Votes received and {name}"
        notes = ["correlation of ranks within games, 95 % intervals over games"]
        drawn.append(_framed(title, [], line_chart(title, series, marks=[0.0]), notes))
    return "".join(drawn)


def _missing(runs: Sequence[Run]) -> str:
    titles = [figure.title for figure in FIGURES if not figure.metrics_of(runs)]
    return f'<p class="note">Not told by any of these runs: {escape("; ".join(titles))}.</p>' if titles else ""


def _games(run: Run, judged: Judged) -> str:
    diagnosis = judged.diagnosis
    if diagnosis is None:
        return f'<div class="card"><h3>{escape(run.name)}</h3><p class="soft">{escape("; ".join(judged.trouble))}</p></div>'
    probes = [["probe", "finds the spy", "chance", "p", "detectors"]]
    probes += [
        [one.name, str(one.found), f"{one.chance:.3f}", f"{one.p_value:.2g}", str(one.detectors)]
        for one in diagnosis.findings
    ]
    gaps = [["spy against civilians", "spy", "civilians", "difference"]]
    gaps += [
        [name, _cell(gap.spy), _cell(gap.civilians), _cell(gap.difference)] for name, gap in diagnosis.gaps.items()
    ]
    alike = f"near-duplicates among civilians: {diagnosis.near_duplicates}; distinct-2 of a game: {_cell(diagnosis.diversity)}"
    frozen = f"<p>{escape(judged.lead.text)}</p>" if judged.lead else ""
    return (
        f'<div class="card"><h3>{escape(run.name)}, the last {diagnosis.games} games, the first quarter to teach the probes</h3>{_table(probes, set(diagnosis.alarms))}'
        f"{_table(gaps)}<p>{escape(alike)}</p>{frozen}</div>"
    )


def _cell(estimate: Estimate) -> str:
    return str(estimate) if estimate.n > 1 else f"{estimate.value:.3f}"


def _table(rows: Sequence[Sequence[str]], alarms: set[str] | frozenset[str] = frozenset()) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = [
        (_ALARM if row[0] in alarms else "<tr>") + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[1:]
    ]
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
