"""Metrics sent to TensorBoard and Weights & Biases, under the names of ``metrics.jsonl``.

A resumed run goes on in the same place, and no iteration is sent twice.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from trainers.config import Logger, Wandb
from trainers.disk import read_log, write_whole, writing

Write = Callable[[int, Mapping[str, float]], None]  # takes all metrics of an iteration, once
RECORD = "wandb.json"  # in the run's folder: its id at Weights & Biases, and the last iteration that surely arrived


@contextmanager
def opened(logger: Logger, settings: dict[str, Any], folder: Path, step: int) -> Iterator[Write]:
    """Open the trackers that ``logger`` names, as one function. ``folder`` is the run's, which has done ``step`` iterations.

    Raises:
        ValueError: a package isn't installed, or Weights & Biases refuses.
        NotWrittenError: their files can't be written.
    """
    with ExitStack() as stack:
        writers = []
        if logger.tensorboard_dir:
            writers.append(stack.enter_context(_tensorboard(Path(logger.tensorboard_dir), step)))
        if logger.wandb.project:
            writers.append(stack.enter_context(_wandb(logger.wandb, settings, folder)))

        def write(step: int, metrics: Mapping[str, float]) -> None:
            for one in writers:
                one(step, metrics)

        yield write


@contextmanager
def _tensorboard(folder: Path, step: int) -> Iterator[Write]:
    """Log to TensorBoard; entries after ``step``, of an interrupted run, are purged."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError("--logger.tensorboard_dir needs tensorboard: pip install -e '.[train]'") from error
    with writing(folder), SummaryWriter(str(folder), purge_step=step + 1) as board:

        def write(step: int, metrics: Mapping[str, float]) -> None:
            with writing(folder):
                for name, value in metrics.items():
                    board.add_scalar(name, value, step)
                board.flush()  # before the checkpoint, after which a resumed run goes on

        yield write


@contextmanager
def _wandb(asked: Wandb, settings: dict[str, Any], folder: Path) -> Iterator[Write]:
    """Log to Weights & Biases, which can take nothing back: send only iterations that haven't arrived there."""
    file = folder / RECORD
    record: dict[str, Any] = {"id": secrets.token_hex(4), "step": -1}
    if file.exists():
        record = json.loads(file.read_text(encoding="utf-8"))
    run = _wandb_run(asked, settings, folder, record["id"])
    sent = arrived = max(record["step"], run.starting_step - 1)  # the server may know more than a killed run wrote
    write_whole(file, json.dumps(record))

    def write(step: int, metrics: Mapping[str, float]) -> None:
        nonlocal sent
        if step >= sent and step > arrived:
            run.log(dict(metrics), step=step)  # kept open: the evaluation at the end belongs to the last iteration
            sent = step

    failed = True
    try:
        for step, metrics in _past(folder):
            write(step, metrics)
        yield write
        failed = False
    finally:
        run.finish(exit_code=int(failed))
        write_whole(file, json.dumps({**record, "step": sent}))


def _past(folder: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the iterations up to the checkpoint from which a resumed run goes on, with their metrics."""
    evaluations = {row.pop("step"): _of_evaluation(row) for row in read_log(folder / "evaluations.jsonl")}
    metrics = {row.pop("step"): row for row in read_log(folder / "metrics.jsonl")}
    for step in sorted({*evaluations, *metrics}):
        numbers = {name: value for name, value in metrics.get(step, {}).items() if isinstance(value, int | float)}
        yield step, {**numbers, **evaluations.get(step, {})}


def _of_evaluation(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the measures of a line of ``evaluations.jsonl``."""
    return {f"eval/{name}": value for name, value in row.items() if isinstance(value, int | float)}


def _wandb_run(asked: Wandb, settings: dict[str, Any], folder: Path, name: str) -> Any:
    try:
        import wandb
    except ImportError as error:
        raise ValueError("--logger.wandb.project needs wandb: pip install -e '.[wandb]'") from error
    try:
        return wandb.init(
            project=asked.project,
            entity=asked.org,
            group=asked.group,
            name=asked.run_name,
            id=name,
            resume="allow",
            dir=str(folder),
            config=settings,
            settings=wandb.Settings(console="off", **({"api_key": asked.key} if asked.key else {})),
        )
    except wandb.errors.Error as error:
        raise ValueError(
            f"Weights & Biases can't be used ({error}); give --logger.wandb.key or set WANDB_API_KEY, or keep it on this machine with WANDB_MODE=offline"
        ) from error
