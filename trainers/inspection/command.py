"""``spyrl inspect``: runs side by side, means over their seeds, and whether their votes still mean quality."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from spy_env.ballot import printable
from trainers.disk import write_whole
from trainers.inspection.diagnosis import PROBED, Verdict, judge
from trainers.inspection.figures import aligned, rows_of, show
from trainers.inspection.page import page
from trainers.inspection.runs import Run, read_runs
from trainers.inspection.seeds import TITLE, seed_groups, seed_rows

PAGE = "report.html"


def main(argv: Sequence[str]) -> int:
    """Look at runs: a table, means over seeds, warnings, and a report page."""
    args = _parser().parse_args(argv)
    if args.games < 1:
        raise ValueError(f"--games is {args.games}; look at 1 at least")
    if args.revote_games < 4:
        raise ValueError(f"--revote_games is {args.revote_games}; a comparison needs 4 at least")
    runs = read_runs(args.runs)
    verdicts = {run.name: _verdict(run, args) for run in runs}
    show(rows_of(runs), "first iterations > last iterations")
    if groups := seed_groups(runs):
        print()
        show(seed_rows(groups), TITLE)
    for run in runs:
        # A name or a note may hold control characters.
        print("\n" + "\n".join(map(printable, _lines(run, verdicts[run.name]))))
    file = args.page or runs[0].inspection / PAGE
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, page(runs, verdicts).encode("utf-8", "replace").decode())
    print(f"\nreport: {file}")
    return 0


def _verdict(run: Run, args: argparse.Namespace) -> Verdict:
    if not args.revote:
        return judge(run, args.games)
    from trainers.inspection.revoting import revoted_lead  # imports the engines

    return judge(run, args.games, *revoted_lead(run, args.revote, args.revote_games))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("spyrl inspect", description=main.__doc__)
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a run's folder, or games: a folder or a .jsonl file"
    )
    parser.add_argument("--games", type=int, default=1000, help="how many of the last games the probes look at")
    parser.add_argument("--page", type=Path, help=f"where the report goes; default: inspection/{PAGE} in the first run")
    parser.add_argument(
        "--revote",
        metavar="PLAYER",
        help="also let this detector vote on the first and the last games, to expose collusion: initial, model:FOLDER_OR_ID, "
        "endpoint:URL#MODEL; its answers are kept in the run's folder",
    )
    parser.add_argument("--revote_games", type=int, default=64, help="on how many games, half of them early ones")
    return parser


def _lines(run: Run, verdict: Verdict) -> list[str]:
    """Return the lines about one run, warnings first."""
    lines = [f"{run.name}:", *(f"  WARNING {name}: {text}" for name, text in verdict.warnings.items())]
    lines += [f"  note: {note}" for note in (*run.notes, *verdict.trouble)]
    if verdict.diagnosis:
        lines.append(f"  last {verdict.diagnosis.games} games, {PROBED}; 95 % intervals")
    lines += [f"  {line}" for table in verdict.tables for line in aligned(table).splitlines()]
    lines += [f"  {text}" for text in verdict.texts]
    for stretch in verdict.stretches:
        votes = "; ".join(f"{name} {estimate}" for name, estimate in stretch.votes.items()) or "too few to compare"
        lines.append(f"  votes and quality, iterations {stretch.first} to {stretch.last}: {votes}")
    return lines
