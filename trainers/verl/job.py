"""A run's folder before verl starts: its settings, and the prompt data set under ``rows/``."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from spy_env import Document, load_task
from spy_env.documents import shorten
from spy_env.viewer.origin import CONFIGS
from trainers import disk
from trainers.cluster.prompt_rows import EVAL, TRAIN, Invitation, RunSettings, to_json
from trainers.config import rules_of, start_curriculum, template_options
from trainers.corpus import Corpus, Say
from trainers.run_folder import LOGS
from trainers.verl.config import Config


def settings_of(config: Config, folder: Path) -> RunSettings:
    """What every row says of the run."""
    task = config.game.task
    return RunSettings(
        folder=str(folder),
        checkpoints=str(folder / "checkpoints"),
        resume=config.ckpt.load_enable,
        task=str(Path(task).resolve()) if task.endswith(".py") else task,
        rules=rules_of(config.game),
        start=start_curriculum(config.game, config.train.seed),
        sampling=config.sampling,
        template_options=template_options(config.rollout.chat_template_kwargs),
        max_len=config.data.max_len,
        batch_size=config.rollout.batch_size,
        samples=config.rollout.n_samples_per_prompt,
        eval_rows=config.eval.games,
        eval_samples=config.game.players,
        seed=config.train.seed,
        deadline_s=config.rollout.deadline_s,
    )


def check(config: Config, folder: Path) -> None:
    """Whether the run may begin or go on.

    Raises:
        ValueError: the folder holds a run that isn't to go on.
    """
    begun = [name for name in (*LOGS, "director", "checkpoints") if (folder / name).exists()]
    if begun and not config.ckpt.load_enable:
        raise ValueError(
            f"{folder} holds a run already ({begun[0]}); choose another --ckpt.output_dir, or go on with --ckpt.load_enable"
        )


def prepare(config: Config, folder: Path, say: Say) -> None:
    """Write the rows, and what was asked for.

    A run that goes on must get the rows that it began with: its place in them is in the checkpoint.

    Raises:
        ValueError: the corpus can't be read, or the run can't begin or go on.
    """
    check(config, folder)
    rows = make_rows(config, settings_of(config, folder), say)
    for split in (TRAIN, EVAL):
        file = folder / "rows" / f"{split}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [line_of(row, number) for number, row in enumerate(row for row in rows if row.split == split)]
        if config.ckpt.load_enable and file.exists():
            _check_same(file, lines)
        if lines:
            disk.write_whole(file, "".join(lines))
    row = {"trainer": "verl", "config": asdict(config)}
    disk.write_whole(folder / CONFIGS[0], json.dumps(row, indent=2) + "\n")


def _check_same(file: Path, lines: list[str]) -> None:
    then = [_document(line) for line in file.read_text(encoding="utf-8").splitlines()]
    if then[: len(lines)] != [_document(line) for line in lines][: len(then)]:
        raise ValueError(f"{file} has other documents or another order than now; resume with the same corpus and flags")


def _document(line: str) -> tuple[str, str]:
    row = json.loads(json.loads(line)["prompt"][0]["content"])
    return row["seed"], row["document"]["text"]


def make_rows(config: Config, settings: RunSettings, say: Say) -> list[Invitation]:
    """The rows to train on and those to evaluate on.

    Raises:
        ValueError: the corpus can't be read or is too small.
    """
    data = config.data
    corpus = Corpus(
        config.game.task, data.documents, data.input_key, held_out=config.eval.games, limit=data.max_samples, say=say
    )
    words = settings.rules.document_words or load_task(config.game.task).document_words
    count = config.train.iterations * config.rollout.batch_size
    splits = {EVAL: corpus.held_out, TRAIN: islice(corpus.training(), count)}
    return [
        Invitation(Document(document.id, shorten(document.text, words)), f"{split}-{number}", split, settings)
        for split, documents in splits.items()
        for number, document in enumerate(documents)
    ]


def line_of(row: Invitation, number: int) -> str:
    """A line of verl's data set: a chat whose only message is the invitation."""
    line = {
        "prompt": [{"role": "user", "content": to_json(row)}],
        "data_source": f"spyrl_{row.split}",
        "reward_model": {"style": "rule", "ground_truth": ""},  # verl's validation reads it; the game is the rule
        "extra_info": {"index": number},
    }
    return json.dumps(line, ensure_ascii=False) + "\n"
