"""The report as one page: warnings first, then figures, then what the games say. No script, no network, light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from spy_env.diagnostics.estimates import Estimate
from trainers.inspection.charts import DASHES, Series, line_chart, stage_bands
from trainers.inspection.diagnosis import Judged
from trainers.inspection.figures import FIGURES, Figure
from trainers.inspection.runs import Run
from trainers.inspection.table import MISSING, rows_of

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
