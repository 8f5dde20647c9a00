"""``spyrl eval``: generate with each model in turn, then score suite by suite, each on disk as soon as it is done."""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
    """The names in a suite's module."""

    NAME: str
    SETS: tuple[str, ...]

    def items(self, run: Run) -> Any:
        """Read and check the data."""

    def calls(self, run: Run, items: Any, against: bool, judged: bool) -> Calls:
        """Count the texts and questions to be asked for."""

    def generate(self, run: Run, items: Any, who: Contestant) -> Any:
        """Generate everything that a contestant must write."""

    def score(self, run: Run, items: Any, answers: dict[str, Any], judge: Judge | None) -> Results:
        """Compute the numbers."""


def main(argv: Sequence[str]) -> int:
    """Evaluate a model on the published tasks."""
    args = parser().parse_args(argv)
    names = SUITES if args.suite == "all" else (args.suite,)
    suites: list[Suite] = [_suite(name) for name in names]
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
            run.say("stopped; everything finished is kept, and the same command goes on from here")
            raise
    if missing:
        run.say(
            f"answers of {' and '.join(missing)} could not be had and are left out of the numbers (counted there as failed); the "
            "same command asks for them again. Where an endpoint refuses prompts as too long, give a smaller --max_len"
        )
    return 1 if missing else 0


def _suite(name: str) -> Any:
    return importlib.import_module(f"benchmarks.evaluation.{name}")


def _has_data(suite: Suite, run: Run) -> bool:
    """Return whether there is data for a suite; say which suite is left out, and why."""
    sets = run.chosen(suite.SETS)
    if suite.NAME == "alignment" and (run.games or set(run.tasks) - set(Run.TASKS)):
        return True
    if not sets:
        run.say(f"{suite.NAME} is left out: none of its sets is named")
        return False
    if run.data and not any(file_of(name, run.data) for name in sets):
        run.say(f"{suite.NAME} is left out: {run.data} has a file for none of {list(sets)}")
        return False
    return True


def _contestants(args: argparse.Namespace) -> list[Contestant]:
    """Return the model, and the base where there is one. A model against itself writes other samples as the base."""
    loading = loading_of(args)
    names = {"model": args.model, "base": args.base} if args.model else {}
    contestants = [contestant(role, name, loading) for role, name in names.items() if name]
    if len({who.fingerprint for who in contestants}) < len(contestants):
        contestants[1].fingerprint += " (as the base)"
    return contestants


def _say_plan(suites: Sequence[Suite], run: Run, items: Mapping[str, Any], args: argparse.Namespace) -> None:
    for suite in suites:
        calls = suite.calls(run, items[suite.NAME], bool(args.base), bool(args.judge))
        each = " of each model" if args.base and suite.NAME != "alignment" else ""  # a base plays no games
        run.say(f"{suite.NAME}: {calls.texts} texts{each}, at most {calls.questions} questions to the judge")


def _generated(
    suites: Sequence[Suite], run: Run, items: Mapping[str, Any], contestants: Sequence[Contestant]
) -> dict[str, dict[str, Any]]:
    """Return the generated texts by suite and role; one model is in memory at a time."""
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
    """Score suite by suite; return the names of those that lack answers.

    Raises:
        UnreachableError, CostCapError: the judge's, once every suite has the numbers that need no judge.
    """
    missing, stopped = [], None
    for suite in suites:
        texts = (run, items[suite.NAME], answers[suite.NAME])
        try:
            results = suite.score(*texts, None if stopped else judge)
        except (UnreachableError, CostCapError) as error:
            stopped = error
            results = suite.score(*texts, None)
        notes = [*_lengths(about), *([f"the judge's numbers are missing: {stopped}"] if stopped else [])]
        results = replace(results, notes=[*notes, *results.notes])
        _write(results, run, {**about, "judging": judge.about()} if judge else about)
        if any("failed" in reason for score in results.scores for reason in score.counts):
            missing.append(suite.NAME)
    if stopped:
        raise stopped
    return missing


def _write(results: Results, run: Run, about: Mapping[str, Any]) -> None:
    folder = run.output / results.suite
    table = tables.markdown(results, about)
    write_results(results, folder, about)
    disk.write_whole(folder / "table.md", table)
    plots.draw(results, folder, run.say)
    print(f"\n{table}\nreport: {report.write_report(run.output)}")


def _lengths(about: Mapping[str, Any]) -> list[str]:
    """Return notes on the bounds of texts beside the protocol's."""
    notes = [f"every answer is cut at {cut} new tokens (--max_new_tokens)"] if (cut := about["max_new_tokens"]) else []
    for role in ("model", "base"):
        if about[role] and (longest := about[role]["max_len"]):
            notes.append(f"{role}: prompt and answer have {longest} tokens together")
    return notes


def _about(
    args: argparse.Namespace, contestants: Sequence[Contestant], settings: JudgeSettings | None
) -> dict[str, Any]:
    """Return what ``results.json`` holds on the run beside its numbers; no keys of endpoints."""
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
    versions = {"python": platform.python_version(), "platform": sys.platform}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


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
    """Keep the fingerprints in ``eval.json``: a folder's report is about one model and base.

    Raises:
        ValueError: the folder holds another's results.
    """
    file = output / "eval.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    now = {}
    for role in ("model", "base"):
        fingerprint, earlier = about[role] and about[role]["fingerprint"], before.get(role)
        if fingerprint and earlier and earlier != fingerprint:
            raise ValueError(
                f"{output} holds results of another {role} ({earlier}, now {fingerprint}); give another --output"
            )
        now[role] = fingerprint or earlier
    disk.write_whole(file, json.dumps(now, indent=2) + "\n")
