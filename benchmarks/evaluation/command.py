"""``spyrl eval``: who is evaluated, and the order of work."""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from benchmarks.evaluation import plots, report, tables
from benchmarks.evaluation.contestants import Contestant, contestant
from benchmarks.evaluation.data_sets import file_of
from benchmarks.evaluation.flags import SUITES, Calls, Run, judge_settings_of, loading_of, parser, run_of
from benchmarks.evaluation.generations import UnreachableError
from benchmarks.evaluation.judge import CostCapError, Judge, JudgeSettings
from benchmarks.evaluation.results import Results, write_results
from trainers import disk

PACKAGES = (
    *("spy-env", "torch", "transformers", "vllm", "openai", "datasets", "lm-eval", "math-verify"),
    *("rouge", "rouge-score", "jieba", "scipy", "numpy"),
)


class Suite(Protocol):
    """What a suite's module holds."""

    NAME: str
    SETS: tuple[str, ...]

    def items(self, run: Run) -> Any:
        """Read and check the data."""

    def calls(self, run: Run, items: Any, against: bool, judged: bool) -> Calls:
        """How much would be asked for."""

    def generate(self, run: Run, items: Any, who: Contestant) -> Any:
        """Everything a contestant must write."""

    def score(self, run: Run, items: Any, answers: dict[str, Any], judge: Judge | None) -> Results:
        """The numbers."""


def main(argv: Sequence[str]) -> int:
    """Evaluate a model on the published tasks."""
    args = parser().parse_args(argv)
    suites = [_suite(name) for name in (SUITES if args.suite == "all" else (args.suite,))]
    run, settings = run_of(args, [name for suite in suites for name in suite.SETS]), judge_settings_of(args)
    if args.suite == "all":
        suites = [suite for suite in suites if _has_data(suite, run)]
        if not suites:
            raise ValueError(
                f"nothing to evaluate: --data {run.data} has a file for no suite's data sets; name another"
            )
    contestants = [] if args.dry_run else _contestants(args)
    items = {suite.NAME: suite.items(run) for suite in suites}
    if args.dry_run:
        _say_plan(suites, run, items, args)
        return 0
    about = _about(args, contestants, settings)
    with _alone_in(run.output):
        _keep_to_one_model(run.output, about)
        judge = Judge(settings, run.output, run.say) if settings else None
        try:
            missing = _score(suites, run, items, _generated(suites, run, items, contestants), judge, about)
        except KeyboardInterrupt:
            run.say("stopped; what was finished is kept, and the same command goes on from here")
            raise
    if missing:
        run.say(
            f"answers of {' and '.join(missing)} could not be had and are left out of the numbers (counted there as failed); the "
            "same command asks for them again. What an endpoint refuses as too long fits with --max_len"
        )
    return 1 if missing else 0


def _suite(name: str) -> Suite:
    module: Any = importlib.import_module(f"benchmarks.evaluation.{name}")
    return module


def _has_data(suite: Suite, run: Run) -> bool:
    """Whether there is anything for a suite; ``all`` says which it leaves out."""
    wanted = run.chosen(suite.SETS)
    if suite.NAME == "alignment" and (run.games or set(run.tasks) - set(Run.TASKS)):
        return True
    if not wanted:
        run.say(f"{suite.NAME} is left out: none of its sets is named")
    elif run.data and not any(file_of(name, run.data) for name in wanted):
        run.say(f"{suite.NAME} is left out: {run.data} has a file for none of {list(wanted)}")
    else:
        return True
    return False


def _generated(
    suites: Sequence[Suite], run: Run, items: Mapping[str, Any], contestants: Sequence[Contestant]
) -> dict[str, dict[str, Any]]:
    """Everything written, by suite and role; one model is in memory at a time."""
    answers: dict[str, dict[str, Any]] = {suite.NAME: {} for suite in suites}
    for who in contestants:
        for suite in suites:
            answers[suite.NAME][who.role] = suite.generate(run, items[suite.NAME], who)
        who.close()
    return answers


def _score(
    suites: Sequence[Suite],
    run: Run,
    items: Mapping[str, Any],
    answers: Mapping[str, dict[str, Any]],
    judge: Judge | None,
    about: Mapping[str, Any],
) -> list[str]:
    """Each suite's numbers, on disk as soon as it has them. Returns the suites that lack answers which couldn't be had.

    Raises:
        UnreachableError, CostCapError: the judge's, once every suite has what needs no judge.
    """
    missing, stopped = [], None
    for suite in suites:
        mine = (run, items[suite.NAME], answers[suite.NAME])
        try:
            results = suite.score(*mine, None if stopped else judge)
        except (UnreachableError, CostCapError) as error:
            stopped = error
            results = suite.score(*mine, None)
        notes = [*_lengths(about), *([f"the judge's numbers are missing: {stopped}"] if stopped else [])]
        results = replace(results, notes=[*notes, *results.notes])
        folder = run.output / suite.NAME
        told = {**about, "judging": judge.about()} if judge else about
        write_results(results, folder, told)
        table = tables.markdown(results, told)
        disk.write_whole(folder / "table.md", table)
        plots.draw(results, folder, run.say)
        print(f"\n{table}")
        print(f"report: {report.write_report(run.output)}")
        if any("failed" in what for score in results.scores for what in score.counts):
            missing.append(suite.NAME)
    if stopped:
        raise stopped
    return missing


def _lengths(about: Mapping[str, Any]) -> list[str]:
    """What bounds texts beside the protocol."""
    notes = [f"every answer is cut at {cut} new tokens (--max_new_tokens)"] if (cut := about["max_new_tokens"]) else []
    for role in ("model", "base"):
        if about[role] and (longest := about[role]["max_len"]):
            notes.append(f"{role}: prompt and answer have {longest} tokens together")
    return notes


def _contestants(args: argparse.Namespace) -> list[Contestant]:
    """The model, and the base where there is one. A model against itself writes other samples as the base."""
    if not args.model:
        return []
    loading = loading_of(args)
    named = {"model": args.model, "base": args.base}
    found = [contestant(role, name, loading) for role, name in named.items() if name]
    for one in found:
        one.max_new_tokens = args.max_new_tokens
    if len({one.fingerprint for one in found}) < len(found):
        found[1].fingerprint += " (as the base)"
    return found


def _about(
    args: argparse.Namespace, contestants: Sequence[Contestant], settings: JudgeSettings | None
) -> dict[str, Any]:
    """What ``results.json`` says about the run beside its numbers; no keys of endpoints."""
    who = {one.role: {"name": one.name, "fingerprint": one.fingerprint, "max_len": one.max_len} for one in contestants}
    return {
        "model": who.get("model"),
        "base": who.get("base"),
        "judge": f"{settings.url}:{settings.model}" if settings else None,
        "engine": args.engine,
        "chat_template_kwargs": args.chat_template_kwargs,
        "data": args.data or "hub",
        "limit": args.limit,
        "max_new_tokens": args.max_new_tokens,
        "seed": args.seed,
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": sys.platform}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def _alone_in(output: Path) -> Iterator[None]:
    """Hold a folder for one evaluation at a time: two would pay for the same answers, and mix their lines.

    Raises:
        ValueError: another evaluation holds it.
    """
    output.mkdir(parents=True, exist_ok=True)
    with (output / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system lets go of it however the process ends
        except BlockingIOError as error:
            raise ValueError(
                f"another evaluation is writing to {output}; wait for it, or give another --output"
            ) from error
        yield


def _keep_to_one_model(output: Path, about: Mapping[str, Any]) -> None:
    """A folder's report is about one model and base.

    Raises:
        ValueError: the folder holds another's.
    """
    file = output / "eval.json"
    now = {role: about[role] and about[role]["fingerprint"] for role in ("model", "base")}
    if file.exists():
        then = json.loads(file.read_text(encoding="utf-8"))
        for role, fingerprint in now.items():
            if fingerprint and then.get(role) and then[role] != fingerprint:
                raise ValueError(
                    f"{output} holds results of another {role} ({then[role]}, now {fingerprint}); give another --output"
                )
        now = {role: fingerprint or then.get(role) for role, fingerprint in now.items()}
    output.mkdir(parents=True, exist_ok=True)
    disk.write_whole(file, json.dumps(now, indent=2) + "\n")


def _say_plan(suites: Sequence[Suite], run: Run, items: Mapping[str, Any], args: argparse.Namespace) -> None:
    for suite in suites:
        calls = suite.calls(run, items[suite.NAME], bool(args.base), bool(args.judge))
        each = " of each model" if args.base and suite.NAME != "alignment" else ""  # a base plays no games
        run.say(f"{suite.NAME}: {calls.texts} texts{each}, at most {calls.questions} questions to the judge")
