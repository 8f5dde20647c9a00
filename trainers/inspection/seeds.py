"""Runs whose settings differ in their seed alone, and their numbers as means over the seeds with intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from spy_env.diagnostics.estimates import average
from trainers.inspection.figures import FIGURES, MISSING, ends, iterations, number
from trainers.inspection.runs import Run

TITLE = "means over seeds, of last iterations and of held-out games, with Student's 95 % intervals"
PLACES = ("train.seed", "ckpt.output_dir", "ckpt.load_enable")  # may differ within a group, and so may logger.*
Groups = Mapping[str, Mapping[int, Run]]  # runs of the same settings by seed, under a name


def seed_groups(runs: Sequence[Run]) -> Groups:
    """Group runs, and name each group with at least two seeds by the settings in which the groups differ.

    Runs without a seed are left out; of runs with equal settings and seeds the first one counts.
    """
    groups: dict[str, dict[int, Run]] = {}
    for run in runs:
        if isinstance(seed := run.settings.get("train.seed"), int):
            groups.setdefault(json.dumps(_compared(run)), {}).setdefault(seed, run)
    rows = [json.loads(key) for key in groups]
    flags = [flag for flag in _union(rows) if len({json.dumps(row.get(flag)) for row in rows}) > 1]
    names = (", ".join(f"{flag} {row[flag]}" for flag in flags if flag in row) for row in rows)
    return {name or "all runs": group for name, group in zip(names, groups.values(), strict=True) if len(group) > 1}


def _compared(run: Run) -> dict[str, Any]:
    """Return the facts that a group shares: trainer, first weights, and all settings but ``PLACES``."""
    facts = {"trainer": run.config.get("trainer", "embedded"), "weights": run.config.get("weights_sha256", "")[:8]}
    flags = sorted(run.settings.items())
    return facts | {flag: value for flag, value in flags if flag not in PLACES and not flag.startswith("logger.")}


def _union(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def seed_rows(groups: Groups) -> list[list[str]]:
    """Return a heading, and a row per quantity with a column per group; ``(n 2)`` marks a mean over fewer than all seeds."""
    columns = [list(group.values()) for group in groups.values()]
    runs = [run for column in columns for run in column]
    rows = [["", *groups], ["seeds", *(", ".join(map(str, sorted(group))) for group in groups.values())]]
    rows.append(["iterations", *(", ".join(dict.fromkeys(map(iterations, column))) for column in columns)])
    for figure in FIGURES:
        for label, metric in figure.metrics_of(runs).items():
            if not metric.startswith("eval/"):
                means = [_mean([ends(run, metric)[-1:] for run in column]) for column in columns]
                rows.append([f"{figure.title}: {label}", *means])
    for name, when in product(_union([row for run in runs for row in run.evaluations]), ("before", "after")):
        means = [_mean([_held_out(run, name, when) for run in column]) for column in columns]
        if name != "step" and set(means) != {MISSING}:
            rows.append([f"Held-out games: {name}, {when}", *means])
    return rows


def _held_out(run: Run, name: str, when: str) -> list[float]:
    """Return the value of a measure before training or after the last iteration, or nothing."""
    at = 0 if when == "before" else run.last_step
    return [value for step, value in run.curve(f"eval/{name}") if step == at]


def _mean(values: Sequence[Sequence[float]]) -> str:
    """Return a mean over runs with its interval; each run has one value or none."""
    known = [value for of_run in values for value in of_run]
    if not known:
        return MISSING
    estimate = average(known)
    interval = f" [{number(estimate.low)}, {number(estimate.high)}]" if len(known) > 1 else ""
    return f"{number(estimate.value)}{interval}" + (f" (n {len(known)})" if len(known) < len(values) else "")
