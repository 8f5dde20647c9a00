"""A run's folder before OpenRLHF starts: the prompt data set under ``rows/``, and what travels with a job under ``job/``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from spy_env import Document, load_task
from spy_env.documents import shorten
from trainers import disk
from trainers.cluster.prompt_rows import EVAL, TRAIN, Invitation, RunSettings, from_json, settings_row, to_json
from trainers.config import rules_of, start_curriculum
from trainers.corpus import Corpus, Say
from trainers.openrlhf.config import Config, filled_in
from trainers.openrlhf.flags import Passed
from trainers.openrlhf.launch import Places
from trainers.openrlhf.versions import installed_versions
from trainers.run_folder import LOGS
from trainers.settings import refuse_changes

AGENT = Path(__file__).with_name("agent.py")
CONFIG, JOB, ROWS, TRAINER = "config.json", "job", "rows", "openrlhf"
NO_PATH = ",@*?[]"  # OpenRLHF splits data set names at the first two, and datasets takes the others for patterns
FIXED = (  # what a resumed run must keep, beside the rows' own settings
    *("game", "rollout.batch_size", "rollout.n_samples_per_prompt", "train.seed", "rollout.temperature"),
    *("rollout.max_new_tokens", "rollout.performing", "rollout.detection", "rollout.chat_template_kwargs"),
    *("data.max_len", "data.max_samples", "data.documents", "data.input_key", "actor.model_name_or_path"),
    *("eval.games", "eval.n_samples_per_prompt", "eval.temperature"),
)


@dataclass(frozen=True, slots=True)
class Job:
    """A run's folder, by the name under which every node sees it. Nothing is written until ``prepare``."""

    config: Config
    folder: Path

    @classmethod
    def of(cls, config: Config) -> Job:
        """The job of a config.

        Raises:
            ValueError: OpenRLHF can't read a data set in the folder.
        """
        folder = Path(config.ckpt.output_dir).resolve()
        if found := [character for character in NO_PATH if character in str(folder)]:
            raise ValueError(
                f"--ckpt.output_dir is {str(folder)!r}; OpenRLHF can't read a data set under a name with {' '.join(found)}: "
                "choose another"
            )
        return cls(config, folder)

    @property
    def files(self) -> Path:
        """What travels with a job that is submitted; Ray takes little, so the rows don't."""
        return self.folder / JOB

    @property
    def rows(self) -> Path:
        """The prompt data set."""
        return self.folder / ROWS

    @property
    def checkpoints(self) -> Path:
        """OpenRLHF's ``--ckpt.path``."""
        return self.folder / "checkpoints"

    def places(self, model: str) -> Places:
        """As the trainer sees them: a submitted job runs in a copy of ``files``."""
        files = Path() if self.config.ray.address else self.files
        evaluation = str(self.rows / "eval.jsonl") if self.config.eval.games else None
        return Places(
            model=model,
            train=str(self.rows / "train.jsonl"),
            evaluation=evaluation,
            agent=str(files / AGENT.name),
            checkpoints=str(self.checkpoints),
            final=str(self.folder / "final"),
        )

    @property
    def task(self) -> str:
        """The task's name for the workers: a file is copied, since a node may have none of that name."""
        name = self.config.game.task
        if not name.endswith(".py"):
            return name
        return Path(name).name if self.config.ray.address else str(self.files / Path(name).name)

    def settings(self) -> RunSettings:
        """What every row says of the run."""
        config = filled_in(self.config)
        return RunSettings(
            folder=str(self.folder),
            checkpoints=str(self.checkpoints),
            resume=config.ckpt.load_enable,
            task=self.task,
            rules=rules_of(config.game),
            start=start_curriculum(config.game, config.train.seed),
            sampling=config.sampling,
            template_options=config.template_options,
            max_len=config.data.max_len,
            batch_size=config.rollout.batch_size,
            samples=config.rollout.n_samples_per_prompt,
            eval_rows=config.eval.games,
            eval_samples=config.eval.n_samples_per_prompt or config.game.players,
            seed=config.train.seed,
            deadline_s=config.rollout.deadline_s,
        )

    def check(self) -> None:
        """Whether the run may begin or go on.

        Raises:
            ValueError: the folder holds a run that isn't to go on, another trainer's, or one with other settings.
        """
        config = self.folder / CONFIG
        then = json.loads(config.read_text(encoding="utf-8")) if config.exists() else None
        if then is not None and then.get("trainer") != TRAINER:
            raise ValueError(f"{self.folder} holds a run of another trainer; choose another --ckpt.output_dir")
        begun = [name for name in (*LOGS, "games", "director", "checkpoints") if _holds(self.folder / name)]
        if begun and not self.config.ckpt.load_enable:
            raise ValueError(
                f"{self.folder} holds a run already ({begun[0]}); choose another --ckpt.output_dir, or go on with "
                "--ckpt.load_enable"
            )
        if then is None or not self.config.ckpt.load_enable:  # what was prepared and never played is prepared anew
            return
        now = json.loads(json.dumps(self.config.without_secrets()))
        refuse_changes(FIXED, then["config"], now, str(self.folder))

    def prepare(self, model: str, command: str, passed: Sequence[Passed], say: Say) -> None:
        """Write everything that the trainer reads, and what it was; ``command`` holds no secret. Files appear whole.

        Raises:
            ValueError: the corpus can't be read, or the run can't begin or go on.
        """
        self.check()
        settings = self.settings()
        for folder in (self.files, self.rows):
            folder.mkdir(parents=True, exist_ok=True)
            disk.mend(folder)
        self._write_rows(settings, say)
        disk.write_whole(self.files / AGENT.name, AGENT.read_text(encoding="utf-8"))
        if self.config.game.task.endswith(".py"):
            task = Path(self.config.game.task)
            disk.write_whole(self.files / task.name, task.read_text(encoding="utf-8"))
        row = {
            "trainer": TRAINER,
            "config": self.config.without_secrets(),
            "model": model,
            "passed": {flag.flag: flag.values for flag in passed},
            "command": command,
            "versions": installed_versions(),
        }
        disk.write_whole(self.folder / CONFIG, json.dumps(row, indent=2) + "\n")
        self._clear_half_checkpoints(say)

    def _write_rows(self, settings: RunSettings, say: Say) -> None:
        train, evaluation = self.rows / "train.jsonl", self.rows / "eval.jsonl"
        rows = (
            self._rows_again(train, evaluation, settings) if self.config.ckpt.load_enable and train.exists() else None
        )
        if rows is None:
            rows = make_rows(self.config, settings, say)
        for file, split in ((evaluation, EVAL), (train, TRAIN)):
            of_split = [row for row in rows if row.split == split]
            if of_split or file.exists():
                disk.write_whole(file, "".join(map(line_of, of_split)))

    def _rows_again(self, train: Path, evaluation: Path, settings: RunSettings) -> list[Invitation]:
        """The rows that the run began with; its place in them is kept in the checkpoint."""
        files = [file for file in (train, evaluation) if file.exists()]
        rows = [from_json(row["prompt"]) for file in files for row in disk.read_log(file)]
        then, now = settings_row(rows[0].run), settings_row(settings)
        refuse_changes(now, then, now, str(self.folder))  # a task's file may have another place
        count, wanted = sum(row.split == TRAIN for row in rows), self.config.rows_per_episode
        if count != wanted:
            raise ValueError(
                f"{self.folder} has {count} rows an episode, and now there would be {wanted}, in another order; to train "
                "longer raise --train.iterations and --train.num_episodes together"
            )
        return [replace(row, run=settings) for row in rows]

    def _clear_half_checkpoints(self, say: Say) -> None:
        """Remove what a killed run began to write after its last whole checkpoint, which ``latest`` names.

        OpenRLHF fails to start on a first one that isn't whole, and counts a later one in the place of a whole one.
        """
        actor = self.checkpoints / "_actor"
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
    """The step that a checkpoint's name holds; the director refuses a ``latest`` with any other name."""
    number = checkpoint.removeprefix("global_step")
    return int(number) if number.isdecimal() else float("inf")


def _holds(path: Path) -> bool:
    """Whether a file, or a folder with anything in it, is there."""
    return any(path.iterdir()) if path.is_dir() else path.exists()


def make_rows(config: Config, settings: RunSettings, say: Say) -> list[Invitation]:
    """The rows to train on and those to evaluate on, each on a document of its own as far as they go.

    Raises:
        ValueError: the corpus can't be read or is too small.
    """
    data, task = config.data, load_task(config.game.task)
    corpus = Corpus(
        config.game.task, data.documents, data.input_key, held_out=config.eval.games, limit=data.max_samples, say=say
    )
    words = settings.rules.document_words or task.document_words  # as games are dealt; the rest needn't travel
    splits = {EVAL: corpus.held_out, TRAIN: islice(corpus.training(), config.rows_per_episode)}
    return [
        Invitation(Document(document.id, shorten(document.text, words)), f"{split}-{number}", split, settings)
        for split, documents in splits.items()
        for number, document in enumerate(documents)
    ]


def line_of(row: Invitation) -> str:
    """A line of OpenRLHF's data set. ``datasource`` names the row's metrics there."""
    line: dict[str, Any] = {"prompt": to_json(row), "datasource": row.split}
    return json.dumps(line, ensure_ascii=False) + "\n"
