"""One page of everything that an output folder's results say: ``report.html``, which needs no network, and ``report.md``.

Whatever comes from outside, names of models and data sets above all, is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.evaluation.blocks import Block, blocks, intervals
from benchmarks.evaluation.page import PAGE
from benchmarks.evaluation.plots import INK, PAPER
from benchmarks.evaluation.published import SOURCE
from benchmarks.evaluation.results import Results, read_results
from benchmarks.evaluation.tables import called, cells, counted, markdown, text, told, unit
from trainers import disk

ORDER = ("reasoning", "summarization", "creative_writing", "alignment")
CONTESTANTS = ("model", "base", "judge")


def write_report(output: Path) -> Path:
    """Write both from the ``results.json`` of every suite in a folder, and return the page's path.

    Raises:
        ValueError: the folder holds no results.
    """
    files = sorted(output.glob("*/results.json"), key=lambda file: (_place(file.parent.name), file.parent.name))
    if not files:
        raise ValueError(f"{output} holds no results.json of any suite; run `spyrl eval` with this --output first")
    suites = [(file.parent, *read_results(file)) for file in files]
    disk.write_whole(output / "report.md", _markdown(suites))
    page = output / "report.html"
    disk.write_whole(page, PAGE.replace("{title}", _title(suites)).replace("{body}", "\n".join(_body(suites))))
    return page


def _place(suite: str) -> int:
    return ORDER.index(suite) if suite in ORDER else len(ORDER)


Suite = tuple[Path, Results, dict[str, Any]]


def _markdown(suites: Sequence[Suite]) -> str:
    parts = []
    for folder, results, about in suites:
        parts.append(markdown(results, about))
        if (folder / "plot.png").exists():
            parts.append(f"![{text(results.suite)}]({folder.name}/plot.png)\n")
        settings = "\n".join(f"- {text(line)}" for line in told(_settings(about)))
        parts.append(f"## Settings and versions\n\n{settings}\n")
    return "\n".join(parts)


def _title(suites: Sequence[Suite]) -> str:
    named = {called(about["model"]): None for _, _, about in suites if about.get("model")}
    return escape(f"Evaluation of {', '.join(named)}" if named else "Evaluation of saved games")


def _body(suites: Sequence[Suite]) -> Iterator[str]:
    yield f"<h1>{_title(suites)}</h1>"
    yield (
        "<nav>"
        + " ".join(f'<a href="#{_anchor(results.suite)}">{_words(results.suite)}</a>' for _, results, _ in suites)
        + "</nav>"
    )
    for folder, results, about in suites:
        yield from _suite(folder, results, about)


def _suite(folder: Path, results: Results, about: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section id="{_anchor(results.suite)}"><h2>{_words(results.suite)}</h2>'
    who = [f"<b>{name}</b> {escape(called(about[name]))}" for name in CONTESTANTS if about.get(name)]
    yield f'<p class="who">{" · ".join(who)}</p>'
    plot = folder / "plot.svg"
    if plot.exists():
        svg = _inline(plot.read_text(encoding="utf-8"), _anchor(results.suite))
        yield f'<figure role="img" aria-label="plot of the numbers below">{svg}</figure>'
    found = blocks(results)
    ways = "; ".join(intervals(results.scores))
    yield f"<p>In brackets 95 % intervals, from n items{': ' + escape(ways) if ways else ''}.</p>"
    for block in found:
        yield from _table(block)
    if any(block.published for block in found):
        yield f"<p>Published rows: {escape(SOURCE)}.</p>"
    yield from _list("Counted", counted(results), is_open=True)
    yield from _list("Notes", results.notes, is_open=True)
    yield from _list("Protocol", told(results.protocol))
    yield from _list("Settings and versions", told(_settings(about)))
    yield "</section>"


def _table(block: Block) -> Iterator[str]:
    yield f"<h3>{escape(block.heading + unit(block))}</h3>"
    head, *rows = cells(block, block.sets)
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th>{escape(value)}</th>" for value in head) + "</tr></thead><tbody>"
    for row in rows:
        kind = ' class="published"' if row[0].startswith("published") else ""
        values = "".join(f"<td>{escape(value)}</td>" for value in row[1:])
        yield f"<tr{kind}><th>{escape(row[0])}</th>{values}</tr>"
    yield "</tbody></table></div>"


def _list(title: str, points: Sequence[str], is_open: bool = False) -> Iterator[str]:
    if points:
        yield f"<details{' open' if is_open else ''}><summary>{title}</summary><ul>"
        yield "".join(f"<li>{escape(point)}</li>" for point in points) + "</ul></details>"


def _settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """What the results are about, the versions last; a setting that isn't there is told as none."""
    plain = {name: "none" if value is None else value for name, value in about.items() if name != "versions"}
    versions = about.get("versions") or {}
    return {**plain, **({"versions": ", ".join(f"{name} {number}" for name, number in versions.items())})}


def _inline(svg: str, name: str) -> str:
    """A plot as a part of the page: ids of its own, ink and paper of the page, as wide as its letters stay readable."""
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
