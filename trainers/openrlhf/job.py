"""A run's folder before OpenRLHF starts: its paths, the task file and the executor that travel with a job under ``job/``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainers import disk
from trainers.cluster.preparation import (
    CHECKPOINTS,
    ROWS,
    RowFormat,
    check_folder,
    run_settings,
    write_config,
    write_rows,
)
from trainers.cluster.prompt_rows import from_json, to_json
from trainers.config import Config
from trainers.corpus import Say
from trainers.openrlhf.checks import rows_per_episode
from trainers.openrlhf.launch import Passed, Paths
from trainers.openrlhf.versions import installed_versions

AGENT = Path(__file__).with_name("agent.py")
JOB, TRAINER = "job", "openrlhf"
NO_PATH = ",@*?[]"  # OpenRLHF splits data set names at the first two, and datasets takes the others for patterns
FORMAT = RowFormat(
    TRAINER,
    lambda row, number: {"prompt": to_json(row), "datasource": row.split},  # the source names the row's metrics there
    lambda line: from_json(line["prompt"]),
    in_order=False,
)


@dataclass(frozen=True, slots=True)
class Job:
    """A run's folder, by the name under which every node sees it. Nothing is written until ``prepare``."""

    config: Config
    folder: Path
    address: str | None  # of the Ray cluster that it is submitted to; None: it runs here

    @classmethod
    def of(cls, config: Config, address: str | None = None) -> Job:
        """Return the job of a config.

        Raises:
            ValueError: OpenRLHF can't read a data set in the folder.
        """
        folder = Path(config.ckpt.output_dir).resolve()
        if characters := [character for character in NO_PATH if character in str(folder)]:
            raise ValueError(
                f"--ckpt.output_dir is {str(folder)!r}; OpenRLHF can't read a data set under a name with "
                f"{' '.join(characters)}: choose another"
            )
        return cls(config, folder, address)

    @property
    def files(self) -> Path:
        """The folder that travels with a job that is submitted; Ray takes little, so the rows don't."""
        return self.folder / JOB

    def paths(self, model: str) -> Paths:
        """Return the paths as the trainer sees them: a submitted job runs in a copy of ``files``."""
        rows = self.folder / ROWS
        return Paths(
            model=model,
            train=str(rows / "train.jsonl"),
            evaluation=str(rows / "eval.jsonl") if self.config.eval.games else None,
            agent=self._at_work(AGENT.name),
            checkpoints=str(self.folder / CHECKPOINTS),
            final=str(self.folder / "final"),
        )

    def _at_work(self, name: str) -> str:
        return name if self.address else str(self.files / name)

    def prepare(self, model: str, command: str, passed: Sequence[Passed], say: Say) -> None:
        """Write everything that the trainer reads, and a record of it; ``command`` holds no secret. Files appear whole.

        Raises:
            ValueError: the corpus can't be read, or the run can't begin or go on.
        """
        check_folder(self.config, self.folder, TRAINER)
        self.files.mkdir(parents=True, exist_ok=True)
        disk.mend(self.files)
        task, files = self.config.game.task, [AGENT]
        if task.endswith(".py"):  # it travels, since a node may have no file of that name
            files.append(Path(task))
            task = self._at_work(Path(task).name)
        write_rows(
            self.config,
            run_settings(self.config, self.folder, task),
            rows_per_episode(self.config),
            FORMAT,
            say,
        )
        for file in files:
            disk.write_whole(self.files / file.name, file.read_text(encoding="utf-8"))
        write_config(
            self.config,
            self.folder,
            TRAINER,
            model=model,
            passed={flag.flag: flag.values for flag in passed},
            command=command,
            versions=installed_versions(),
        )
        self._clear_half_checkpoints(say)

    def _clear_half_checkpoints(self, say: Say) -> None:
        """Remove what a killed run began to write after its last whole checkpoint, which ``latest`` names.

        OpenRLHF fails to start on a first one that isn't whole, and counts a later one in the place of a whole one.
        """
        actor = self.folder / CHECKPOINTS / "_actor"
        if not actor.exists():
            return
        if not (latest := actor / "latest").exists():
            say(f"{actor} holds no whole checkpoint; beginning again")
            shutil.rmtree(actor)
            return
        last = _step_of(latest.read_text(encoding="utf-8").strip())
        for folder in actor.glob("global_step*"):
            if _step_of(folder.name) > last:
                say(f"{folder} is later than the last whole checkpoint; removed")
                shutil.rmtree(folder)


def _step_of(checkpoint: str) -> float:
    """Return the step in a checkpoint's name; the coordinator refuses a ``latest`` with any other name."""
    number = checkpoint.removeprefix("global_step")
    return int(number) if number.isdecimal() else float("inf")
