"""A row of the prompt data set: an invitation to play on one document, and the settings of the run that it belongs to.

A trainer hands whoever makes its samples little but the row's text, so the row says everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spy_env import Document, Rules, Stage
from trainers.curriculum import Curriculum
from trainers.engines import Sampling

VERSION = 1
TRAIN, EVAL = "train", "eval"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What is the same for every row of a run."""

    folder: str  # the run's: games, metrics and the director's states; every node must see it
    checkpoints: str  # the trainer's folder of them
    resume: bool  # go on from the last of them
    task: str
    rules: Rules
    start: Curriculum  # before the first iteration
    sampling: Mapping[Stage, Sampling]
    template_options: Mapping[str, Any]
    max_len: int  # prompt and reply in tokens
    batch_size: int  # training rows of an iteration
    samples: int  # calls for a training row
    eval_rows: int
    eval_samples: int  # calls for an evaluation row, any number
    seed: int
    deadline_s: float  # seconds that one reply may take; everything else that is waited for takes seconds


@dataclass(frozen=True, slots=True)
class Invitation:
    """To play on a document. ``seed`` names the row within its run; ``split`` is ``train`` or ``eval``."""

    document: Document
    seed: str
    split: str
    run: RunSettings

    @property
    def samples(self) -> int:
        """How many calls this row is executed with."""
        return self.run.samples if self.split == TRAIN else self.run.eval_samples


def to_json(invitation: Invitation) -> str:
    """The row's text."""
    run = invitation.run
    row = {
        "version": VERSION,
        "split": invitation.split,
        "seed": invitation.seed,
        "document": asdict(invitation.document),
        "run": {**{name: getattr(run, name) for name in _PLACES}, **settings_row(run)},
    }
    return json.dumps(row, ensure_ascii=False)


def settings_row(run: RunSettings) -> dict[str, Any]:
    """The settings that a run's games, averages and baselines depend on, as JSON has them; a resumed run keeps them."""
    plain = {name: getattr(run, name) for name in _PLAIN}
    return plain | {
        "rules": asdict(run.rules),
        "start": json.loads(run.start.to_json()),
        "sampling": {str(stage): asdict(sampling) for stage, sampling in run.sampling.items()},
        "template_options": dict(run.template_options),
    }


_PLACES = ("folder", "checkpoints", "resume", "deadline_s")  # may change when a run is resumed
_PLAIN = ("task", "max_len", "batch_size", "samples", "eval_rows", "eval_samples", "seed")


def from_json(text: str) -> Invitation:
    """What ``to_json`` wrote, exactly.

    Raises:
        ValueError: the text is no invitation of this version.
    """
    try:
        row = json.loads(text)
        version = row["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"not an invitation ({error!r}): {text[:80]!r}; prepare the prompt data set with spyrl openrlhf or spyrl verl, "
            "and hand its rows on as they are (no --data.apply_chat_template, no --data.input_template)"
        ) from error
    if version != VERSION:
        raise ValueError(
            f"an invitation of version {version!r}, and this spy-env reads {VERSION}; launch and nodes need the same spy-env"
        )
    said = row["run"]
    run = RunSettings(
        **{name: said[name] for name in (*_PLACES, *_PLAIN)},
        rules=Rules(**said["rules"]),
        start=Curriculum.from_json(json.dumps(said["start"])),
        sampling={Stage(stage): Sampling(**sampling) for stage, sampling in said["sampling"].items()},
        template_options=said["template_options"],
    )
    return Invitation(Document(**row["document"]), row["seed"], row["split"], run)
