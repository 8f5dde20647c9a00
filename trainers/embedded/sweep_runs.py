"""Run a sweep, one training after another: finished runs are kept, begun ones go on, failed ones are recorded.

A run's ``outcome.json`` appears, whole, when it is finished; ``failure.txt`` holds why it failed. Both belong to the
sweep, which needs nothing else of a run but its ``config.json`` and its metrics.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from typing import Any

from trainers.config import Config
from trainers.disk import write_whole
from trainers.embedded.loop import Result
from trainers.embedded.sweep import Run, Sweep
from trainers.metrics import Estimate

OUTCOME, FAILURE = "outcome.json", "failure.txt"


def state_of(run: Run) -> str:
    """``finished``, ``failed``, ``begun`` or ``waiting``, from what lies in its folder."""
    files = {"finished": OUTCOME, "failed": FAILURE, "begun": "config.json"}
    return next((state for state, file in files.items() if (run.folder / file).exists()), "waiting")


def outcome_of(run: Run) -> dict[str, tuple[Estimate, Estimate]]:
    """What a finished run measured before and after."""
    row = json.loads((run.folder / OUTCOME).read_text(encoding="utf-8"))
    return {name: (_estimate(before), _estimate(after)) for name, (before, after) in row["compared"].items()}


def failure_of(run: Run) -> str:
    """Why a run failed, in a line."""
    return (run.folder / FAILURE).read_text(encoding="utf-8").partition("\n")[0]


def plan_lines(sweep: Sweep) -> list[str]:
    """Every run, with what would be done about it."""
    doing = {"finished": "finished, kept", "failed": "failed, tried again", "begun": "begun, goes on", "waiting": "new"}
    count = len(sweep.runs)
    lines = [f"{count} runs: {len(sweep.settings)} settings x {len(sweep.seeds)} seeds; results in {sweep.folder}"]
    lines += [f"setting {name}: {json.dumps(over)}" for name, over in sweep.settings.items()]
    return [*lines, *(f"{_named(sweep, i)}: {doing[state_of(run)]}, {run.folder}" for i, run in enumerate(sweep.runs))]


def run_sweep(
    sweep: Sweep, train_one: Callable[[Config], Result], say: Callable[[str], None], tell: Callable[[Sweep], object]
) -> int:
    """Do what is left to do. ``tell`` is called when the state of a run has changed. Returns how many runs failed."""
    tell(sweep)
    failed = 0
    for i, run in enumerate(sweep.runs):
        if state_of(run) == "finished":
            say(f"{_named(sweep, i)}: finished before")
            continue
        say(_named(sweep, i))
        if (why := _attempt(run, train_one)) is not None:
            failed += 1
            say(f"{_named(sweep, i)} failed: {why}")
        tell(sweep)
    return failed


def _named(sweep: Sweep, index: int) -> str:
    run = sweep.runs[index]
    return f"run {index + 1} of {len(sweep.runs)} ({run.setting}, seed {run.seed})"


def _attempt(run: Run, train_one: Callable[[Config], Result]) -> str | None:
    """Train, and write down the outcome; or why there is none."""
    (run.folder / FAILURE).unlink(missing_ok=True)
    begun = time.monotonic()
    try:
        result = train_one(run.config)
    except Exception as error:  # whatever it is, the other runs don't depend on it; the traceback is kept
        why = " ".join(f"{type(error).__name__}: {error}".split())
        run.folder.mkdir(parents=True, exist_ok=True)
        write_whole(run.folder / FAILURE, f"{why}\n\n{traceback.format_exc()}")
        return why
    compared = {name: [list(before), list(after)] for name, (before, after) in result.compared.items()}
    seconds = round(time.monotonic() - begun, 1)  # since it was last started
    write_whole(run.folder / OUTCOME, to_json({"seconds": seconds, "compared": compared}))
    return None


def to_json(value: Any) -> str:
    """Indented JSON, whose numbers any reader takes: an interval without a bound has null there."""
    return json.dumps(_bounded(value), indent=2) + "\n"


def _bounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bounded(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_bounded(own) for own in value]
    return None if isinstance(value, float) and abs(value) == float("inf") else value


def _estimate(row: list[Any]) -> Estimate:
    value, low, high, n = row
    return Estimate(value, float("-inf") if low is None else low, float("inf") if high is None else high, n)
