"""A run prepared for verl in the tiny world, and verl's own reading of the command that trains it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from tests.trainers import tiny_world
from trainers.config import Config, StageSampling
from trainers.verl.command import prepare
from trainers.verl.launch import command

FLAGS: dict[str, Any] = {
    "game.task": tiny_world.TASK,
    "game.players": 4,
    "game.mask_fraction": 0.2,
    "rollout.batch_size": 2,
    "rollout.n_samples_per_prompt": 4,
    "rollout.performing": StageSampling(6),
    "rollout.detection": StageSampling(4),
    "data.max_len": 64,
    "train.iterations": 3,
    "train.seed": 0,  # under it some votes are right and others wrong
    "eval.games": 2,
}
SMALL = (  # processes
    "actor_rollout_ref.rollout.agent.num_workers=2",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
)


def config_of(folder: Path, model: Path | str = "some/model", **flags: Any) -> Config:
    """A config from dotted flags; the documents are written beside the run."""
    file = folder.parent / f"{folder.name}.jsonl"
    rows = [{"id": document.id, "text": document.text} for document in tiny_world.documents(20)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = FLAGS | {"ckpt.output_dir": str(folder), "data.documents": str(file), "actor.model_name_or_path": str(model)}
    groups: dict[str, dict[str, Any]] = {}
    for flag, value in (said | flags).items():
        group, _, name = flag.partition(".")
        groups.setdefault(group, {})[name] = value
    fields = {field.name: field.default_factory for field in dataclasses.fields(Config)}
    return Config(**{group: dataclasses.replace(fields[group](), **values) for group, values in groups.items()})


def rows_of(config: Config, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows as they are written, by split."""
    prepare(config, folder, lambda _: None)
    return {
        split: [json.loads(line) for line in (folder / "rows" / f"{split}.jsonl").read_text().splitlines()]
        for split in ("train", "eval")
    }


def composed(config: Config, folder: Path, *more: str) -> Any:
    """verl's config, as its command line makes it."""
    import verl.trainer
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(str(Path(verl.trainer.__file__).with_name("config")), version_base=None):
        return compose(
            "ppo_trainer",
            overrides=[*command(config, folder, config.actor.model_name_or_path)[3:], *SMALL, *more],
        )
