"""``spyrl inspect``: runs side by side, and whether their votes still mean quality."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from spy_env.ballot import printable
from trainers.disk import write_whole
from trainers.inspection.diagnosis import Judged, judge
from trainers.inspection.page import page
from trainers.inspection.runs import Run, read_runs
from trainers.inspection.table import aligned, rows_of, show

FOLDER, PAGE = "inspection", "report.html"


def main(argv: Sequence[str]) -> int:
    """Look at runs: a table, warnings, and a report page."""
    args = _parser().parse_args(argv)
    if args.games < 1:
        raise ValueError(f"--games is {args.games}; look at 1 at least")
    runs = read_runs(args.runs)
    judged = {run.name: judge(run, args.games) for run in runs}
    show(rows_of(runs), "first iterations > last iterations")
    for run in runs:
        print("\n" + printable_lines(told(run, judged[run.name])))
    file = args.page or runs[0].folder / FOLDER / PAGE
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, page(runs, judged).encode("utf-8", "replace").decode())
    print(f"\nreport: {file}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("spyrl inspect", description=main.__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run's folder, or one that holds games")
    parser.add_argument("--games", type=int, default=1000, help="how many of the last games the probes look at")
    parser.add_argument("--page", type=Path, help=f"where the report goes; default: {FOLDER}/{PAGE} in the first run")
    return parser


def told(run: Run, judged: Judged) -> str:
    """What is to be said of a run: warnings first."""
    lines = [f"{run.name}:", *(f"  WARNING {name}: {text}" for name, text in judged.warnings.items())]
    lines += [f"  note: {note}" for note in (*run.notes, *judged.trouble)]
    if judged.diagnosis:
        diagnosis = judged.diagnosis
        rows = [["  probe", "finds the spy", "chance", "p", "detectors"]]
        rows += [
            [f"  {one.name}", str(one.found), f"{one.chance:.3f}", f"{one.p_value:.2g}", str(one.detectors)]
            for one in diagnosis.findings
        ]
        lines += [f"  last {diagnosis.games} games, the first quarter to teach the probes; 95 % intervals", aligned(rows)]
        lines += [f"  spy minus civilians, {name}: {gap.difference}" for name, gap in diagnosis.gaps.items()]
        lines += [f"  near-duplicates among civilians: {diagnosis.near_duplicates}"]
    for stretch in judged.stretches:
        votes = "; ".join(f"{name} {estimate}" for name, estimate in stretch.votes.items())
        lines.append(f"  votes and quality, iterations {stretch.first} to {stretch.last}: {votes or 'nothing to tell'}")
    return "\n".join([*lines, *([f"  {judged.lead.text}"] if judged.lead else [])])


def printable_lines(text: str) -> str:
    """Without control characters that a name or a note may hold."""
    return "\n".join(map(printable, text.split("\n")))
