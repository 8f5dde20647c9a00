"""Runs whose settings differ in their seed alone, and their numbers as means over the seeds with intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spy_env.diagnostics.estimates import average
from trainers.inspection.figures import FIGURES, MISSING, ends, iterations, number
from trainers.inspection.runs import Run

TITLE = "means over seeds, of last iterations and of held-out games, with Student's 95 % intervals"
PLACES = ("train.seed", "ckpt.output_dir", "ckpt.load_enable")  # may differ within a group, and so may logger.*


@dataclass(frozen=True, slots=True)
class SeedGroup:
    """Runs of the same settings by seed, named by the settings in which the groups differ."""

    name: str
    runs: Mapping[int, Run]


def seed_groups(runs: Sequence[Run]) -> list[SeedGroup]:
    """Return the groups with at least two seeds. Of runs with equal settings and seeds the first one counts."""
    groups: dict[str, dict[int, Run]] = {}
    for run in runs:
        settings = run.settings
        if isinstance(seed := settings.get("train.seed"), int):
            groups.setdefault(json.dumps(_compared(run), sort_keys=True), {}).setdefault(seed, run)
    settings_of = [_compared(next(iter(group.values()))) for group in groups.values()]
    flags = [flag for flag in _union(settings_of) if len({json.dumps(one.get(flag)) for one in settings_of}) > 1]
    names = [", ".join(f"{flag} {one[flag]}" for flag in flags if flag in one) or "all runs" for one in settings_of]
    return [SeedGroup(name, group) for name, group in zip(names, groups.values(), strict=True) if len(group) > 1]


def _compared(run: Run) -> dict[str, Any]:
    """Return what runs of a group have in common: trainer, first weights, and all settings but ``PLACES``."""
    facts = {"trainer": run.config.get("trainer", "embedded"), "weights": run.config.get("weights_sha256", "")[:8]}
    flags = run.settings.items()
    return facts | {flag: value for flag, value in flags if flag not in PLACES and not flag.startswith("logger.")}


def _union(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def seed_rows(groups: Sequence[SeedGroup]) -> list[list[str]]:
    """Return a heading, and a row per metric with a column per group; ``(n 2)`` marks a mean over fewer seeds than there are."""
    runs = [run for group in groups for run in group.runs.values()]
    rows = [["", *(group.name for group in groups)]]
    rows.append(["seeds", *(", ".join(map(str, sorted(group.runs))) for group in groups)])
    rows.append(["iterations", *(", ".join(dict.fromkeys(map(iterations, group.runs.values()))) for group in groups)])
    for figure in FIGURES:
        for label, metric in figure.metrics_of(runs).items():
            if not metric.startswith("eval/"):
                values = [[ends(run, metric)[-1:] for run in group.runs.values()] for group in groups]
                rows.append([f"{figure.title}: {label}", *map(_mean, values)])
    for name in _union([row for run in runs for row in run.evaluations]):
        for when in ("before", "after"):
            values = [[_held_out(run, name, when) for run in group.runs.values()] for group in groups]
            if name != "step" and any(map(any, values)):
                rows.append([f"Held-out games: {name}, {when}", *map(_mean, values)])
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
