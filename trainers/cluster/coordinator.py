"""The coordinator of a run: counts the rows that are played, decides the stage, and keeps the records.

A trainer doesn't name a stage when it asks for a sample. Whole batches of rows make iterations, and an iteration is one
of the trainer's global steps. Plain Python; ``coordinator_actor`` puts it into the cluster.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from spy_env import Game
from trainers import disk
from trainers.cluster.prompt_rows import RunSettings, settings_row
from trainers.curriculum import Curriculum
from trainers.metrics import curriculum_metrics, game_metrics, measure, sample_metrics
from trainers.run_folder import LOGS, append_line, cut_after, games_file, step_named, write_games_anew
from trainers.samples import Sample
from trainers.settings import refuse_changes

STATES = "coordinator"  # the folder of the curricula after each iteration


class Assigned(NamedTuple):
    """The iteration that a row is played for, and the curriculum that decides its stage."""

    iteration: int
    curriculum: Curriculum


class CoordinatorClient(Protocol):
    """The coordinator as an engine's process reaches it; see the methods of ``Coordinator``."""

    async def begin(self, seed: str) -> Assigned: ...

    async def finish(self, seed: str, games: Sequence[Game], samples: Sequence[Sample]) -> None: ...

    async def give_up(self, seed: str) -> None: ...

    async def evaluated(self, seed: str, games: Sequence[Game]) -> None: ...


@dataclass(frozen=True, slots=True)
class StartedRow:
    """A training row of the open iteration: the engine that plays it; its games and samples once they are over."""

    engine: str
    games: tuple[Game, ...] = ()
    samples: tuple[Sample, ...] = ()


class Coordinator:
    """Holds the curriculum of one run. A row counts when all of its games are over, and not before."""

    def __init__(self, run: RunSettings) -> None:
        """Begin a run, or go on from the step that the trainer's last checkpoint names.

        Raises:
            ValueError: the folder holds a run that isn't resumed, or none that fits the checkpoint and the settings.
        """
        self.run = run
        self._folder = Path(run.folder)
        self._states = self._folder / STATES
        self.iteration, self.curriculum = _first_iteration(run, self._folder, self._states)
        for folder in (self._states, self._folder / "games"):
            folder.mkdir(parents=True, exist_ok=True)
        self._rows: dict[str, StartedRow] = {}
        self._evaluated: dict[str, tuple[Game, ...]] = {}
        self._began = time.monotonic()

    def engine_of(self, seed: str) -> str | None:
        """Return the engine that plays or played a row in the open iteration; None for a row that hasn't come."""
        row = self._rows.get(seed)
        return row.engine if row else None

    def begin(self, seed: str, engine: str) -> Assigned:
        """Count a row, and return its iteration. A row whose engine died or gave it up begins again, counted once.

        Raises:
            ValueError: the iteration has all its rows, and some are still played: the count doesn't close.
        """
        if not self._rows:
            self._began = time.monotonic()
        if seed not in self._rows and len(self._rows) == self.run.batch_size:
            unfinished = [name for name, row in self._rows.items() if not row.games]
            raise ValueError(
                f"row {seed!r} came while iteration {self.iteration} still plays {unfinished[:5]} ({len(unfinished)} of its "
                f"{self.run.batch_size} rows): the trainer must play batches of {self.run.batch_size} rows "
                "(--rollout.batch_size), without --algo.dynamic_filtering_enable and --rollout.vllm_generate_batch_size "
                "(verl: data.train_batch_size, trainer.v1.trainer_mode=sync), and drop none of them"
            )
        self._rows[seed] = StartedRow(engine)
        return Assigned(self.iteration, self.curriculum)

    def give_up(self, seed: str, engine: str) -> None:
        """Let a row begin again that an engine could not play to its end."""
        if self.engine_of(seed) == engine:
            self._rows[seed] = StartedRow("")

    def finish(self, seed: str, engine: str, games: Sequence[Game], samples: Sequence[Sample]) -> None:
        """Take a row's games. With the last row of an iteration the curriculum moves and everything is written.

        Raises:
            ValueError: another engine plays this row by now, so these games don't count.
            NotWrittenError: the disk refuses.
        """
        if self.engine_of(seed) != engine or self._rows[seed].games:
            raise ValueError(f"row {seed!r} isn't played by engine {engine} in iteration {self.iteration}; not counted")
        self._rows[seed] = StartedRow(engine, tuple(games), tuple(samples))
        if len(self._rows) == self.run.batch_size and all(row.games for row in self._rows.values()):
            self._close()

    def evaluated(self, seed: str, games: Sequence[Game]) -> None:
        """Take the games of an evaluation row. With the last row a point of the curves is written."""
        self._evaluated[seed] = tuple(games)
        if len(self._evaluated) < self.run.eval_rows:
            return
        step = self.iteration - 1
        held_out = [
            game for seed in sorted(self._evaluated) for game in self._evaluated[seed]
        ]  # rows come in any order
        self._evaluated = {}
        write_games_anew(games_file(self._folder, step, "eval"), held_out)
        values = {name: estimate.value for name, estimate in measure(held_out, self.run.start.rewards).items()}
        append_line(self._folder / "evaluations.jsonl", {"step": step, **values})

    def _close(self) -> None:
        """Move the curriculum and write the iteration's games, metrics and state; the state last, as proof of the others."""
        step, trained = self.iteration, self.curriculum.stage
        games = [game for row in self._rows.values() for game in row.games]
        samples = [sample for row in self._rows.values() for sample in row.samples]
        moved = self.curriculum.after(games)
        metrics = game_metrics(games, moved.rewards) | sample_metrics(samples) | curriculum_metrics(moved)
        write_games_anew(games_file(self._folder, step), games)
        append_line(self._folder / "metrics.jsonl", {"step": step, "stage": trained, **metrics})
        append_line(self._folder / "timings.jsonl", {"step": step, "play_s": time.monotonic() - self._began})
        state = {"step": step, "curriculum": json.loads(moved.to_json()), "settings": settings_row(self.run)}
        disk.write_whole(state_file(self._states, step), json.dumps(state, indent=2) + "\n")
        self.iteration, self.curriculum, self._rows = step + 1, moved, {}


def state_file(states: Path, step: int) -> Path:
    """Return the file of the curriculum after an iteration."""
    return states / f"step_{step:06d}.json"


def _first_iteration(run: RunSettings, folder: Path, states: Path) -> tuple[int, Curriculum]:
    """Return the first iteration to play and its curriculum; what a resumed run wrote after its checkpoint is cut."""
    step = _checkpoint_step(Path(run.checkpoints)) if run.resume else 0
    written = [name for name in LOGS if (folder / name).exists()]
    if written and not run.resume:
        raise ValueError(
            f"{folder} holds a run already ({written[0]}); choose another --ckpt.output_dir, or go on with --ckpt.load_enable"
        )
    curriculum = _saved(run, state_file(states, step)) if step else run.start
    cut_after(folder, step)
    for file in states.glob("step_*.json"):
        if step_named(file) > step:
            file.unlink()
    return step + 1, curriculum


_LATEST = {  # the file that names a trainer's last checkpoint, the pattern of the name, and that pattern in words
    Path("_actor", "latest"): (re.compile(r"global_step(\d+)"), "global_stepN"),  # DeepSpeed, for OpenRLHF
    Path("latest_checkpointed_iteration.txt"): (re.compile(r"(\d+)"), "a step"),  # verl
}


def _checkpoint_step(checkpoints: Path) -> int:
    """Return the global step of the trainer's last checkpoint; 0 where there is none yet."""
    for file, (pattern, form) in _LATEST.items():
        if (latest := checkpoints / file).exists():
            name = latest.read_text(encoding="utf-8").strip()
            if not (step := pattern.fullmatch(name)):
                raise ValueError(
                    f"{latest} names {name!r}, not {form}; resume from a checkpoint that was saved after a step"
                )
            return int(step[1])
    return 0


def _saved(run: RunSettings, file: Path) -> Curriculum:
    """Return the curriculum in a state file.

    Raises:
        ValueError: the file isn't there or can't be read, or the run had other settings.
    """
    try:
        row: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        curriculum, then = Curriculum.from_json(json.dumps(row["curriculum"])), row["settings"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"the coordinator's state {file} can't be read ({error!r}), and the trainer's checkpoint needs it; name an older "
            "checkpoint there whose state is here, or begin a new run in another --ckpt.output_dir"
        ) from error
    now = settings_row(run)
    refuse_changes(now, {name: then.get(name) for name in now}, now, str(file))
    return curriculum
