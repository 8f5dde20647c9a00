"""The report page of runs: curves as SVG, and the page around them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby, pairwise
from math import ceil, floor, log10

from trainers.inspection.diagnosis import PROBED, Verdict
from trainers.inspection.figures import FIGURES, MISSING, Figure, rows_of
from trainers.inspection.runs import Run
from trainers.inspection.seeds import TITLE, seed_groups, seed_rows

WIDTH, HEIGHT = 440, 220  # of a drawing, in its own units; the page scales it
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 24
BAND = 26  # height of a run's band of stages
DASHES = ("", "7 4", "2 3", "9 3 2 3")
POINTS = 300  # a longer curve is drawn by the means of at most as many stretches
FEW = 12  # points that are also drawn as dots
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: of the run ``run`` (which gives its colour), as the ``line``-th quantity of the figure (its dashes)."""

    label: str
    run: int
    line: int
    points: Sequence[Point]
    intervals: Sequence[Point] = ()  # low and high at each point


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places in a drawing: ``x`` counts from the left, ``y`` from the top."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return LEFT + (value - self.x_low) / ((self.x_high - self.x_low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.y_low) / ((self.y_high - self.y_low) or 1) * (HEIGHT - TOP - BOTTOM)


def line_chart(title: str, series: Sequence[Series], shares: bool = False, marks: Sequence[float] = ()) -> str:
    """Return curves over iterations with dotted lines at ``marks``; an empty text if there are no points."""
    drawn = [one for one in series if one.points]
    if not drawn:
        return ""
    scale = _scale(drawn, shares, marks)
    parts = [*_axes(scale), *(_level(scale, "mark", mark, f"{mark:.3g}") for mark in marks)]
    return _svg(title, HEIGHT, [*parts, *(_curve(scale, one) for one in drawn)])


def _scale(series: Sequence[Series], shares: bool, marks: Sequence[float]) -> Scale:
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points]
    ys += [end for one in series for interval in one.intervals for end in interval]
    ys += [0.0, 1.0] if shares else marks
    low, high = min(ys), max(ys)
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    return Scale(min(xs), max(xs), low, high)


def _axes(scale: Scale) -> list[str]:
    parts = []
    for value in ticks(scale.y_low, scale.y_high):
        text = f"{value:zg}" if abs(value) >= 1e-12 else "0"
        parts.append(_level(scale, "grid", value) + _text(LEFT - 6, scale.y(value) + 4, "end", text))
    whole = (value for value in ticks(scale.x_low, scale.x_high) if value == int(value))
    return parts + [_text(scale.x(value), HEIGHT - 6, "middle", f"{value:g}") for value in whole]


def _level(scale: Scale, kind: str, value: float, title: str = "") -> str:
    y = scale.y(value)
    return _element("line", f'class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"', title)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round values from ``low`` to ``high``, in steps of 1, 2 or 5 times a power of ten."""
    if low == high:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** floor(log10(rough))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)
    digits = max(0, 2 - floor(log10(step)))
    return [round(i * step, digits) for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _curve(scale: Scale, one: Series) -> str:
    points = _thinned(one.points)
    colour, parts = f"r{one.run % 8}", []
    for piece in _unbroken(points):
        if len(piece) > 1:
            places = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in piece)
            look = f'class="curve {colour}" stroke-dasharray="{DASHES[one.line % len(DASHES)]}"'
            parts.append(_element("polyline", f'{look} points="{places}"', one.label))
        for x, y in piece if len(points) <= FEW or len(piece) == 1 else ():
            look = f'class="dot {colour}" cx="{scale.x(x):.1f}" cy="{scale.y(y):.1f}" r="2.5"'
            parts.append(_element("circle", look, f"{one.label}: {y:.4g} at {x:g}"))
    for (x, _), (low, high) in zip(points, one.intervals, strict=False):
        ends = f'x1="{scale.x(x):.1f}" x2="{scale.x(x):.1f}" y1="{scale.y(low):.1f}" y2="{scale.y(high):.1f}"'
        parts.append(f'<line class="whisker {colour}" {ends}/>')
    return "".join(parts)


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    size = ceil(len(points) / POINTS)
    if size == 1:
        return points
    stretches = (points[i : i + size] for i in range(0, len(points), size))
    return [(sum(x for x, _ in some) / len(some), sum(y for _, y in some) / len(some)) for some in stretches]


def _unbroken(points: Sequence[Point]) -> list[list[Point]]:
    """Divide points at gaps: nothing is drawn across iterations that lack the quantity."""
    nearest = min((b[0] - a[0] for a, b in pairwise(points)), default=0)
    pieces = [[points[0]]]
    for point in points[1:]:
        if point[0] - pieces[-1][-1][0] <= 1.5 * nearest:
            pieces[-1].append(point)
        else:
            pieces.append([point])
    return pieces


def stage_bands(rows: Sequence[tuple[str, Sequence[tuple[int, str]]]]) -> str:
    """Return a band per run, coloured by the stage that each iteration trained; an empty text without stages."""
    steps = [step for _, stages in rows for step, _ in stages]
    if not steps:
        return ""
    scale, foot = Scale(min(steps) - 0.5, max(steps) + 0.5, 0, 1), BAND * len(rows)
    parts = [_text(scale.x(step), foot + 14, "middle", f"{step}") for step in sorted({min(steps), max(steps)})]
    for number, (name, stages) in enumerate(rows):
        top = f'y="{BAND * number + 4}" height="20"'
        for first, last, stage in _stretches(stages):
            begin, end = scale.x(first - 0.5), scale.x(last + 0.5)
            look = f'class="stage {escape(stage)}" {top} x="{begin:.1f}" width="{end - begin:.1f}"'
            parts.append(_element("rect", look, f"{name}: {stage}, iterations {first} to {last}"))
        parts.append(f'<rect class="run r{number % 8}" {top} x="{LEFT - 14}" width="8"/>')
    return _svg("Trained stage by iteration", foot + 20, parts)


def _stretches(stages: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int, str]]:
    """Yield (first iteration, last iteration, stage) of consecutive iterations that trained one stage."""
    # Within a stretch, an iteration minus its place in the list stays the same.
    for (stage, _), some in groupby(enumerate(stages), lambda item: (item[1][1], item[1][0] - item[0])):
        steps = [step for _, (step, _) in some]
        yield steps[0], steps[-1], stage


def _element(kind: str, look: str, title: str) -> str:
    return f"<{kind} {look}><title>{escape(title)}</title></{kind}>" if title else f"<{kind} {look}/>"


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head><body>
<h1>{title}</h1><p class="legend">{legend}</p>
{warnings}
<h2>Figures</h2>
<div class="figures">{figures}</div>
{missing}{seeds}
<h2>What the games say</h2>
{games}
<h2>All figures</h2><p class="note">first iterations &gt; last iterations; {nothing} is missing</p>
{table}
</body></html>
"""


def page(runs: Sequence[Run], verdicts: Mapping[str, Verdict]) -> str:
    """Return the whole page; ``verdicts`` are by the runs' names."""
    figures = [_stages(runs), *(_figure(figure, runs) for figure in FIGURES), *_votes(runs, verdicts)]
    absent = "; ".join(figure.title for figure in FIGURES if not figure.metrics_of(runs))
    groups = seed_groups(runs)
    return PAGE.format(
        title=escape("Who is the spy? " + ", ".join(run.name for run in runs)),
        style=files("trainers.inspection").joinpath("page.css").read_text(encoding="utf-8"),
        legend=_keys([(f'class="run r{number % 8}"', run.name) for number, run in enumerate(runs)]),
        warnings=_warnings(runs, verdicts),
        figures="".join(figures),
        missing=f'<p class="note">In none of these runs: {escape(absent)}.</p>' if absent else "",
        seeds=f"<h2>Seeds</h2><p class='note'>{TITLE}</p>{_table(seed_rows(groups))}" if groups else "",
        games="\n".join(_games(run.name, verdicts[run.name]) for run in runs),
        nothing=MISSING,
        table=_table(rows_of(runs)),
    )


def _keys(labels: Sequence[tuple[str, str]]) -> str:
    """Return a legend's keys from (look of the sample, label)."""
    sample = '<span><svg viewBox="0 0 24 8"><rect {} width="24" height="8"/></svg>{}</span>'
    return "".join(sample.format(look, escape(label)) for look, label in labels)


def _warnings(runs: Sequence[Run], verdicts: Mapping[str, Verdict]) -> str:
    warned = [
        f"<li><b>{escape(name)}</b> in {escape(run.name)}: {escape(text)}</li>"
        for run in runs
        for name, text in verdicts[run.name].warnings.items()
    ]
    notes = [
        f'<li class="soft">{escape(f"{run.name}: {note}")}</li>'
        for run in runs
        for note in (*run.notes, *verdicts[run.name].trouble)
    ]
    unknown = "" if all(verdicts[run.name].diagnosis for run in runs) else " Not all runs' votes could be judged."
    box = f'<div class="warnings"><b>Warnings</b><ul>{"".join(warned)}</ul></div>' if warned else ""
    return (box or f"<p>No warnings.{unknown}</p>") + (f"<ul>{''.join(notes)}</ul>" if notes else "")


def _stages(runs: Sequence[Run]) -> str:
    names = sorted({stage for run in runs for _, stage in run.stages} & {"performing", "detection", "joint"})
    keys = _keys([(f'class="stage {name}"', name) for name in names])
    return _framed("Trained stage", keys, stage_bands([(run.name, run.stages) for run in runs if run.stages]))


def _figure(figure: Figure, runs: Sequence[Run]) -> str:
    metrics = figure.metrics_of(runs)
    curves = [[run.curve(metric) for metric in metrics.values()] for run in runs]
    series = [
        Series(f"{run.name}, {label}", number, line, curve)
        for number, run in enumerate(runs)
        for line, (label, curve) in enumerate(zip(metrics, curves[number], strict=True))
    ]
    marks = sorted({run.chance for run in runs if run.chance is not None}) if figure.chance else []
    lacking = ", ".join(run.name for run, of_run in zip(runs, curves, strict=True) if not any(of_run))
    notes = [figure.note, "dotted: a vote at random" if marks else "", f"missing in {lacking}" if lacking else ""]
    look = 'class="grid" style="stroke:currentColor" stroke-width="2" x2="24" y1="4" y2="4"'
    keys = "".join(
        f'<span><svg viewBox="0 0 24 8"><line {look} stroke-dasharray="{DASHES[i % len(DASHES)]}"/></svg>{escape(label)}</span>'
        for i, label in enumerate(metrics)
    )
    return _framed(figure.title, keys, line_chart(figure.title, series, figure.shares, marks), *filter(None, notes))


def _framed(title: str, keys: str, drawing: str, *notes: str) -> str:
    if not drawing:
        return ""
    legend = f'<div class="legend note">{keys}</div>'
    below = f'<div class="note">{escape("; ".join(notes))}</div>' if notes else ""
    return f"<figure><figcaption><h3>{escape(title)}</h3>{legend}</figcaption>{drawing}{below}</figure>"


def _votes(runs: Sequence[Run], verdicts: Mapping[str, Verdict]) -> list[str]:
    """Draw votes received against each proxy of quality, by stretches of iterations, with intervals."""
    stretches = [verdicts[run.name].stretches for run in runs]
    drawings = []
    for name in dict.fromkeys(name for of_run in stretches for stretch in of_run for name in stretch.votes):
        series = []
        for number, run in enumerate(runs):
            known = [(stretch, stretch.votes[name]) for stretch in stretches[number] if name in stretch.votes]
            points = [((stretch.first + stretch.last) / 2, votes.value) for stretch, votes in known]
            intervals = [(votes.low, votes.high) for _, votes in known]
            series.append(Series(f"{run.name}, {name}", number, 0, points, intervals))
        title = f"Votes received and {name}"
        note = "correlation of ranks within games, 95 % intervals over games"
        drawings.append(_framed(title, "", line_chart(title, series, marks=[0.0]), note))
    return drawings


def _games(name: str, verdict: Verdict) -> str:
    head, alarms, texts = name, {}, [f'<p class="soft">{escape(text)}</p>' for text in verdict.trouble]
    if verdict.diagnosis:
        head = f"{name}, the last {verdict.diagnosis.games} games, {PROBED}"
        alarms, texts = verdict.diagnosis.alarms, [f"<p>{escape(text)}</p>" for text in verdict.texts]
    tables = (_table(table, alarms) for table in verdict.tables)
    return f'<div class="card"><h3>{escape(head)}</h3>{"".join([*tables, *texts])}</div>'


def _table(rows: Sequence[Sequence[str]], alarms: Collection[str] = ()) -> str:
    """Return a table with a heading; rows named in ``alarms`` stand out."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = ""
    for row in rows[1:]:
        look = ' class="alarm"' if row[0] in alarms else ""
        body += f"<tr{look}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
