"""One page of all results in an output folder: ``report.html``, which needs no network, and ``report.md``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.evaluation.plots import INK, PAPER
from benchmarks.evaluation.results import SOURCE, Results, read_results
from benchmarks.evaluation.tables import Block, blocks, cells, counted, intervals, markdown, name_of, points, text
from trainers import disk

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root { --ink: #1b1c1e; --paper: #fdfdfc; --soft: #63666b; --line: #d9dadd; --band: #f2f3f5; --link: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e7ea; --paper: #16181b; --soft: #9ea2a9; --line: #383b41; --band: #1f2226; --link: #7db7f5; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 76rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.35rem; margin: 2.5rem 0 .25rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.75rem 0 .4rem; }
a { color: var(--link); margin-right: 1rem; }
p { margin: .4rem 0; } p, summary, li { color: var(--soft); } b { color: var(--ink); font-weight: 600; }
figure { margin: 1rem 0; overflow-x: auto; color: var(--ink); }
figure svg { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } tbody tr:last-child > * { border-bottom: 0; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
thead th, thead th:first-child { background: var(--band); }
.published > * { color: var(--soft); font-weight: 400; }
details { margin-top: 1rem; } summary { cursor: pointer; font-weight: 600; color: var(--ink); }
ul { margin: .5rem 0; padding-left: 1.2rem; font-size: .875rem; }
@media (max-width: 40rem) {
  body { padding: 1rem .8rem 3rem; }
  th:first-child { white-space: normal; overflow-wrap: normal; max-width: 9.5rem; }
}
</style>
</head>
<body>
{body}
</body>
</html>
"""


ORDER = ("reasoning", "summarization", "creative_writing", "alignment")
CONTESTANTS = ("model", "base", "judge")
Suite = tuple[Path, Results, Mapping[str, Any]]
"""A suite's folder, its results, and what they are about."""


def write_report(output: Path) -> Path:
    """Write both pages from the ``results.json`` of every suite in a folder; return the HTML page's path.

    Raises:
        ValueError: the folder holds no results.
    """
    places = {name: place for place, name in enumerate(ORDER)}
    files = sorted(output.glob("*/results.json"), key=lambda file: (places.get(file.parent.name, 9), file.parent.name))
    if not files:
        raise ValueError(f"{output} holds no results.json of any suite; run `spyrl eval` with this --output first")
    suites: list[Suite] = [(file.parent, *read_results(file)) for file in files]
    disk.write_whole(output / "report.md", "\n".join(_markdown(*suite) for suite in suites))
    page = output / "report.html"
    names = {name_of(about["model"]): None for _, _, about in suites if about.get("model")}
    title = escape(f"Evaluation of {', '.join(names)}" if names else "Evaluation of saved games")
    disk.write_whole(page, PAGE.replace("{title}", title).replace("{body}", "\n".join(_body(title, suites))))
    return page


def _markdown(folder: Path, results: Results, about: Mapping[str, Any]) -> str:
    plot = f"![{text(results.suite)}]({folder.name}/plot.png)\n\n" if (folder / "plot.png").exists() else ""
    settings = "\n".join(f"- {text(point)}" for point in points(_settings(about)))
    return f"{markdown(results, about)}\n{plot}## Settings and versions\n\n{settings}\n"


def _body(title: str, suites: Sequence[Suite]) -> Iterator[str]:
    links = [f'<a href="#{_anchor(results.suite)}">{_words(results.suite)}</a>' for _, results, _ in suites]
    yield f"<h1>{title}</h1>"
    yield f"<nav>{' '.join(links)}</nav>"
    for folder, results, about in suites:
        yield from _suite(folder, results, about)


def _suite(folder: Path, results: Results, about: Mapping[str, Any]) -> Iterator[str]:
    anchor = _anchor(results.suite)
    yield f'<section id="{anchor}"><h2>{_words(results.suite)}</h2>'
    who = [f"<b>{role}</b> {escape(name_of(about[role]))}" for role in CONTESTANTS if about.get(role)]
    yield f'<p class="who">{" · ".join(who)}</p>'
    if (plot := folder / "plot.svg").exists():
        svg = _inline(plot.read_text(encoding="utf-8"), anchor)
        yield f'<figure role="img" aria-label="plot of the numbers below">{svg}</figure>'
    methods = "; ".join(intervals(results.scores))
    yield f"<p>In brackets 95 % intervals, from n items{': ' + escape(methods) if methods else ''}.</p>"
    arranged = blocks(results)
    for block in arranged:
        yield from _table(block)
    if any(block.published for block in arranged):
        yield f"<p>Published rows: {escape(SOURCE)}.</p>"
    yield from _list("Counted", counted(results), is_open=True)
    yield from _list("Notes", results.notes, is_open=True)
    yield from _list("Protocol", points(results.protocol))
    yield from _list("Settings and versions", points(_settings(about)))
    yield "</section>"


def _table(block: Block) -> Iterator[str]:
    head, *rows = cells(block, block.sets)
    yield f"<h3>{escape(block.heading)}</h3>"
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th>{escape(value)}</th>" for value in head) + "</tr></thead><tbody>"
    for label, *values in rows:
        kind = ' class="published"' if label.startswith("published") else ""
        yield f"<tr{kind}><th>{escape(label)}</th>{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"
    yield "</tbody></table></div>"


def _list(title: str, items: Sequence[str], is_open: bool = False) -> Iterator[str]:
    if items:
        yield f"<details{' open' if is_open else ''}><summary>{title}</summary><ul>"
        yield "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul></details>"


def _settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``about`` for reading: a setting without a value is none, and the versions come last, on one line."""
    versions = ", ".join(f"{name} {number}" for name, number in (about.get("versions") or {}).items())
    plain = {name: "none" if value is None else value for name, value in about.items() if name != "versions"}
    return {**plain, "versions": versions}


def _inline(svg: str, name: str) -> str:
    """Return a plot for the page: with ids of its own, in the page's colours, as wide as its letters stay readable."""
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", svg[svg.index("<svg") :])
    svg = svg.replace(f"fill: {PAPER}", "fill: none").replace(INK, "currentColor")
    wide = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])  # type: ignore[index] # matplotlib always writes it
    head, _, rest = svg.partition(">")
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return f'{head} style="max-width: {wide}pt; min-width: {0.7 * wide:.0f}pt">{rest}'


def _anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def _words(name: str) -> str:
    return escape(name.replace("_", " ").capitalize())
