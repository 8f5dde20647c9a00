"""The table of a sweep, ``sweep.md`` and ``sweep.json``: a row a setting, from whatever has been finished so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trainers.disk import read_log, write_whole
from trainers.embedded.sweep import Run, Sweep
from trainers.embedded.sweep_runs import failure_of, outcome_of, state_of, to_json
from trainers.metrics import Estimate, average

NOTE = """\
95 % intervals: Student's, over the seeds of a setting. Where only one run is finished (marked *) the interval is that
run's own, over its games or iterations, and says nothing about other seeds. Measures are of the held-out games before
and after training{metrics}.
"""
METRICS_NOTE = "; a training metric is the mean of the last {last} iterations that tell it"


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one setting: by column, each finished run's own estimate."""

    setting: str
    states: tuple[tuple[int, str], ...]  # seed, state
    failures: tuple[tuple[int, str], ...]  # seed, why
    columns: dict[str, dict[int, Estimate]]
    cut: tuple[tuple[int, int, int], ...]  # seed, iterations, as many as were asked for: what time cut short

    def cell(self, column: str) -> Estimate | None:
        """The mean over seeds with its interval; of one seed its own estimate; None before any."""
        own = list(self.columns.get(column, {}).values())
        return average([estimate.value for estimate in own]) if len(own) > 1 else (own[0] if own else None)


def write_table(sweep: Sweep) -> str:
    """Write both files anew; returns the Markdown."""
    rows = [_row(sweep, setting) for setting in sweep.settings]
    columns = _columns(sweep, rows)
    text = _markdown(sweep, rows, columns)
    sweep.folder.mkdir(parents=True, exist_ok=True)
    write_whole(sweep.folder / "sweep.md", text)
    write_whole(sweep.folder / "sweep.json", to_json(_json(sweep, rows, columns)))
    return text


def _row(sweep: Sweep, setting: str) -> Row:
    columns: dict[str, dict[int, Estimate]] = {}
    cut = []
    runs = sweep.of_setting(setting)
    for run in runs:
        if state_of(run) == "finished":
            for column, estimate in (_measured(run) | _trained(run, sweep)).items():
                columns.setdefault(column, {})[run.seed] = estimate
            if (done := len(_lines(run))) < (planned := run.config.train.iterations):
                cut.append((run.seed, done, planned))
    states = tuple((run.seed, state_of(run)) for run in runs)
    failures = tuple((run.seed, failure_of(run)) for run in runs if state_of(run) == "failed")
    return Row(setting, states, failures, columns, tuple(cut))


def _measured(run: Run) -> dict[str, Estimate]:
    both = outcome_of(run).items()
    return {f"{name}, {when}": pair[i] for name, pair in both for i, when in enumerate(("before", "after"))}


def _lines(run: Run) -> list[dict[str, Any]]:
    return read_log(run.folder / "metrics.jsonl")


def _trained(run: Run, sweep: Sweep) -> dict[str, Estimate]:
    """Means of the last iterations that tell a metric; some are told in one stage only."""
    rows = _lines(run)
    told = {name: [float(row[name]) for row in rows if name in row][-sweep.last :] for name in sweep.metrics}
    return {name: average(values) for name, values in told.items() if values}


def _columns(sweep: Sweep, rows: Sequence[Row]) -> list[str]:
    """Measures first, in the order in which they are told or asked for; what nothing tells is left to the notes."""
    known = list(dict.fromkeys(column for row in rows for column in row.columns))
    wanted = [column for column in known if column not in sweep.metrics]
    if sweep.measures is not None:
        wanted = [f"{measure}, {when}" for measure in sweep.measures for when in ("before", "after")]
    return [column for column in (*wanted, *sweep.metrics) if column in known]


def _missing(sweep: Sweep, rows: Sequence[Row]) -> list[str]:
    """Columns asked for that no finished run tells."""
    known = {column for row in rows for column in row.columns}
    asked = [(name, f"{name}, after") for name in sweep.measures or ()] + [(name, name) for name in sweep.metrics]
    return [name for name, column in asked if known and column not in known]


def _markdown(sweep: Sweep, rows: Sequence[Row], columns: Sequence[str]) -> str:
    lines = [_line(["setting", "finished", *columns]), _line(["---"] * (2 + len(columns)))]
    for row in rows:
        lines.append(_line([row.setting, _finished(row), *(_shown(row, column, sweep) for column in columns)]))
    metrics = METRICS_NOTE.format(last=sweep.last) if set(columns) & set(sweep.metrics) else ""
    notes = [f"- {row.setting}, seed {seed}, failed: {why}" for row in rows for seed, why in row.failures]
    notes += [
        f"- {row.setting}, seed {seed}, ended after {done} of {planned} iterations"
        for row in rows
        for seed, done, planned in row.cut
    ]
    notes += [f"- no finished run tells {name!r}" for name in _missing(sweep, rows)]
    return "\n".join([*lines, "", NOTE.format(metrics=metrics), *notes]).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _finished(row: Row) -> str:
    """Such as ``2 of 3 (1 failed)``."""
    counts = Counter(state for _, state in row.states)
    others = ", ".join(f"{counts[state]} {state}" for state in ("failed", "begun") if counts[state])
    return f"{counts['finished']} of {len(row.states)}" + (f" ({others})" if others else "")


def _shown(row: Row, column: str, sweep: Sweep) -> str:
    cell = row.cell(column)
    if cell is None:
        return "-"
    few: Callable[[float], str] = "{:.3g}".format  # metrics may be very small or large; measures are shares and rewards
    text = f"{few(cell.value)} [{few(cell.low)}, {few(cell.high)}]" if column in sweep.metrics else str(cell)
    return text if len(row.columns[column]) > 1 else f"{text} *"


def _json(sweep: Sweep, rows: Sequence[Row], columns: Sequence[str]) -> dict[str, Any]:
    return {
        "seeds": sweep.seeds,
        "last": sweep.last,
        "columns": columns,
        "settings": {
            row.setting: {
                "over": sweep.settings[row.setting],
                "states": {str(seed): state for seed, state in row.states},
                "failures": {str(seed): why for seed, why in row.failures},
                "estimates": {
                    column: {
                        "interval_over": "seeds" if len(own) > 1 else "the run",
                        "estimate": _named(row.cell(column)),
                        "by_seed": {str(seed): _named(estimate) for seed, estimate in own.items()},
                    }
                    for column, own in row.columns.items()
                },
            }
            for row in rows
        },
    }


def _named(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else estimate._asdict()
