"""A run's folder before its trainer starts: the prompt data set under ``rows/``, and ``config.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from spy_env import Document, load_task
from spy_env.documents import shorten
from trainers import disk
from trainers.cluster.coordinator import STATES
from trainers.cluster.prompt_rows import EVAL, TRAIN, PromptRow, RunSettings, settings_row
from trainers.config import LOWEST_IN_VLLM, Config
from trainers.corpus import Corpus, Say, check_source
from trainers.run_folder import LOGS
from trainers.settings import MOVED, refuse, refuse_changes, settings_of
from trainers.small_model import SMALL_MODEL, hub_name

CONFIG, ROWS, CHECKPOINTS = "config.json", "rows", "checkpoints"
STATES_OF_0_1 = "director"
FIXED = (  # a resumed run must keep these, beside the rows' own settings
    *MOVED.values(),
    *("game", "rollout.batch_size", "rollout.n_samples_per_prompt", "train.seed", "rollout.temperature"),
    *("rollout.max_new_tokens", "rollout.performing", "rollout.detection", "rollout.chat_template_kwargs"),
    *("data.max_len", "data.max_samples", "data.documents", "data.input_key", "actor.model_name_or_path"),
    *("eval.games", "eval.n_samples_per_prompt", "eval.temperature"),
)


FOLLOWED = (  # settings and groups that games are prepared and played by, whichever trainer asks for them
    *MOVED.values(),
    *("game", "data", "rollout.batch_size", "rollout.n_samples_per_prompt", "rollout.max_new_tokens"),
    *("rollout.temperature", "rollout.performing", "rollout.detection", "rollout.chat_template_kwargs"),
    *("rollout.deadline_s", "eval.games", "train.iterations", "train.seed", "actor.model_name_or_path"),
    *("ckpt.output_dir", "ckpt.load_enable"),
    *(
        "rollout.engine",
        "actor.shared_prompts",
    ),  # of no effect: the trainer's engines generate, and it computes each sample
)
OPPONENTS = "one model plays all seats here; train against others with spyrl train"
REFUSED = {"opponents": OPPONENTS, "eval.opponent": OPPONENTS}
NOT_THERE = "this trainer has nothing like it; leave it out, or train with spyrl train"


def check_settings(config: Config, refused: Mapping[str, str], followed: Iterable[str]) -> None:
    """Refuse settings that a trainer with a call per sample can't follow.

    ``refused`` and ``followed`` name settings or groups of them; a setting in neither must stay at its default, too.

    Raises:
        ValueError: with the flag, its value, and the way out.
    """
    reasons = {**REFUSED, **refused}
    known = (*reasons, *FOLLOWED, *followed)
    names = [name for name, _ in settings_of(config)]
    others = [name for name in names if not any(f"{name}.".startswith(f"{group}.") for group in known)]
    refuse(config, {**reasons, **dict.fromkeys(others, NOT_THERE)})
    if config.algo.schedule == "joint":
        raise ValueError(
            "--algo.schedule is 'joint', which trains both replies of a seat, and this trainer takes one sample per call; "
            "train both stages at once with spyrl train, or choose another schedule"
        )
    check_temperature("--rollout.temperature", config.rollout.temperature)


def check_temperature(flag: str, temperature: float) -> None:
    """Refuse a temperature that vLLM would raise.

    Raises:
        ValueError: with the flag, its value, and the way out.
    """
    if temperature < LOWEST_IN_VLLM:
        raise ValueError(f"{flag} is {temperature}, and vLLM samples at {LOWEST_IN_VLLM} or higher; raise it")


class RowFormat(NamedTuple):
    """How a trainer keeps prompt rows."""

    trainer: str
    line_of: Callable[[PromptRow, int], dict[str, Any]]  # a line of its data set; the row's number is within its split
    row_of: Callable[[dict[str, Any]], PromptRow]  # the row in such a line
    in_order: bool  # it plays rows in their order, so that a longer run begins with the same ones


def run_settings(config: Config, folder: Path, task: str) -> RunSettings:
    """Return the part of a run's rows that is the same for all. ``task`` is the name by which workers find it."""
    return RunSettings(
        folder=str(folder),
        checkpoints=str(folder / CHECKPOINTS),
        resume=config.ckpt.load_enable,
        task=task,
        rules=config.game.rules,
        start=config.start_curriculum(),
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


def check_run(config: Config, folder: Path, trainer: str) -> None:
    """Check that a run may begin in a folder or go on there, and that its corpus can be read.

    Raises:
        ValueError: the folder holds a run that isn't to go on, another trainer's, or one with other settings; or there is
            no such corpus or task.
    """
    check_folder(config, folder, trainer)
    check_source(config.game.task, config.data.documents, config.data.input_key)


def check_folder(config: Config, folder: Path, trainer: str) -> None:
    """Check that a run may begin in a folder, or go on there.

    Raises:
        ValueError: the folder holds a run that isn't to go on, another trainer's or version's, or one with other settings.
    """
    if (folder / STATES_OF_0_1).exists():
        raise ValueError(
            f"{folder} holds a run of spy-env 0.1.0, which resumes there alone; choose another --ckpt.output_dir"
        )
    file = folder / CONFIG
    then = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    if then is not None and then.get("trainer") != trainer:
        raise ValueError(f"{folder} holds a run of another trainer; choose another --ckpt.output_dir")
    traces = [name for name in (*LOGS, "games", STATES, CHECKPOINTS) if _holds(folder / name)]
    if traces and not config.ckpt.load_enable:
        raise ValueError(
            f"{folder} holds a run already ({traces[0]}); choose another --ckpt.output_dir, or go on with --ckpt.load_enable"
        )
    if then is None or not config.ckpt.load_enable:  # rows that were prepared and never played are prepared anew
        return
    now = json.loads(json.dumps(config.without_secrets()))
    refuse_changes(FIXED, then["config"], now, str(folder))


def _holds(path: Path) -> bool:
    """Return whether a file, or a folder with anything in it, is there."""
    return any(path.iterdir()) if path.is_dir() else path.exists()


def write_rows(config: Config, run: RunSettings, count: int, rows: RowFormat, say: Say) -> None:
    """Write the prompt data set with ``count`` training rows; of a run that goes on, the one that it began with.

    Raises:
        ValueError: the corpus can't be read or is too small, or the run can't go on with it.
    """
    folder = Path(run.folder) / ROWS
    folder.mkdir(parents=True, exist_ok=True)
    disk.mend(folder)
    files = {split: folder / f"{split}.jsonl" for split in (EVAL, TRAIN)}
    if run.resume and files[TRAIN].exists():
        made = _rows_again(config, run, count, rows, files, say)
    else:
        made = make_rows(config, run, count, say)
    for split, file in files.items():
        of_split = [row for row in made if row.split == split]
        if of_split or file.exists():
            lines = [json.dumps(rows.line_of(row, i), ensure_ascii=False) for i, row in enumerate(of_split)]
            disk.write_whole(file, "".join(f"{line}\n" for line in lines))


def make_rows(config: Config, run: RunSettings, count: int, say: Say) -> list[PromptRow]:
    """Return the rows to evaluate on and ``count`` to train on, each on a document of its own as far as they go.

    Raises:
        ValueError: the corpus can't be read or is too small.
    """
    task, data = config.game.task, config.data
    corpus = Corpus(task, data.documents, data.input_key, held_out=config.eval.games, limit=data.max_samples, say=say)
    words = run.rules.document_words or load_task(task).document_words  # as games are dealt; the rest needn't travel
    splits = {EVAL: corpus.held_out, TRAIN: islice(corpus.training(), count)}
    return [
        PromptRow(Document(document.id, shorten(document.text, words)), f"{split}-{number}", split, run)
        for split, documents in splits.items()
        for number, document in enumerate(documents)
    ]


def _rows_again(
    config: Config, run: RunSettings, count: int, rows: RowFormat, files: dict[str, Path], say: Say
) -> list[PromptRow]:
    """Return the rows that the run began with; its place in them is kept in the trainer's checkpoint."""
    kept = [rows.row_of(line) for file in files.values() if file.exists() for line in disk.read_log(file)]
    then, now = settings_row(kept[0].run), settings_row(run)
    refuse_changes(now, then, now, run.folder)  # a task's file may have another place
    kept_count = sum(row.split == TRAIN for row in kept)
    if kept_count == count:
        return [replace(row, run=run) for row in kept]
    if not rows.in_order:
        raise ValueError(
            f"{run.folder} has {kept_count} rows per episode, and now there would be {count}, in another order; to train "
            "longer raise --train.iterations and --train.num_episodes together"
        )
    made = make_rows(config, run, count, say)
    documents = {row.seed: row.document for row in made}
    if any(documents.get(row.seed, row.document) != row.document for row in kept):
        raise ValueError(
            f"{run.folder} has other documents or another order than now; resume with the same corpus and flags"
        )
    return made


def write_config(config: Config, folder: Path, trainer: str, **record: Any) -> None:
    """Write the settings of a run, and a record of how it was started, which holds no secret."""
    row = {"trainer": trainer, "config": config.without_secrets(), **record}
    disk.write_whole(folder / CONFIG, json.dumps(row, indent=2) + "\n")


def model_of(name: str, fetch: bool, one_machine: bool) -> str:
    """Return the model's name as the trainer gets it: a folder by its whole path.

    Raises:
        ValueError: the small model was named for a cluster, whose nodes don't have it.
    """
    if name != SMALL_MODEL:
        return str(Path(name).resolve()) if Path(name).is_dir() else name
    if not one_machine:
        raise ValueError(
            f"--actor.model_name_or_path is {name!r}, which is kept on this machine; give {hub_name(name)}, or a folder that "
            "every node sees"
        )
    from trainers.first_run.downloads import small_folder, small_model

    return str(small_model() if fetch else small_folder())
