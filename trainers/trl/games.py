"""A step of games for TRL: the settings, the deals, the rows that TRL gets, and the curriculum in a checkpoint.

Nothing here imports TRL, so that all of it is tested without.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from spy_env import Document, Game, Stage
from spy_env.ranges import check_ranges, ranged
from trainers import disk
from trainers.config import Algo, Data, GameConfig, Kl, StageSampling, sampling_by_stage
from trainers.curriculum import Curriculum
from trainers.engines import Sampling
from trainers.metrics import curriculum_metrics, game_metrics, mean, sample_metrics
from trainers.prompt_budget import PromptBudget, deal_to_fit
from trainers.samples import Sample
from trainers.settings import settings_of

STATE, VERSION = "curriculum.json", 2
FIXED = (  # settings of GRPOConfig that a resumed run must keep, since games, baselines and averages depend on them
    *("generation_batch_size", "num_generations", "max_completion_length", "temperature", "seed"),
    "chat_template_kwargs",
)


@dataclass(frozen=True)
class Games:
    """The game, the algorithm, the corpus, and how replies are generated. All other settings are ``GRPOConfig``'s."""

    game: GameConfig = field(default_factory=GameConfig)
    algo: Algo = field(default_factory=Algo)
    data: Data = field(default_factory=Data)
    performing: StageSampling = field(default_factory=StageSampling)  # lengths default to max_completion_length
    detection: StageSampling = field(default_factory=StageSampling)
    micro_batch_size: int = ranged(32, least=1)  # replies generated at a time ...
    max_tokens_per_gpu: int = ranged(32768, least=1)  # ... and tokens of their prompts and replies (or one reply)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.algo.kl != Kl():
            coefficient = self.algo.kl.init_coef
            raise ValueError(
                f"algo.kl.init_coef is {coefficient}, and TRL computes the KL term: leave algo.kl out, and give "
                f"GRPOConfig(beta={coefficient})"
            )
        if self.algo.warm_start:
            raise ValueError(
                f"algo.warm_start is {self.algo.warm_start}, and TRL fits nothing before it trains; warm up with spyrl train "
                "and give TRL its final/"
            )

    @property
    def rows_by_stage(self) -> dict[str, int]:
        """The number of a game's trained replies, by what an iteration trains."""
        players, schedule = self.game.players, self.algo.schedule
        voters = self.game.referees if self.game.voters == "referees" else players - 1
        counts = {"performing": players, "detection": voters, "joint": players + voters}
        stages = (schedule,) if schedule in counts else ("performing", "detection")
        return {stage: counts[stage] for stage in stages}

    @property
    def rows_per_game(self) -> int:
        """The rows that TRL keeps for a game: as many as the stage with the most trained replies fills."""
        return max(self.rows_by_stage.values())

    def sampling(self, args: Any) -> dict[Stage, Sampling]:
        """Return the sampling of each stage."""
        return sampling_by_stage(args.max_completion_length, args.temperature, self.performing, self.detection)

    def fixed(self, args: Any) -> dict[str, Any]:
        """Return the settings that a resumed run must keep, as JSON holds them."""
        values = {name: getattr(args, name) for name in FIXED}
        values |= {name: value for name, value in settings_of(self) if "." in name}  # all but the size of a batch
        return json.loads(json.dumps(values))

    def record(self, args: Any, model: str) -> dict[str, Any]:
        """Return the settings by their names in ``spyrl train``, for the run's folder. ``model`` is the one before training."""
        return {
            "trainer": "trl",
            "config": {
                "game": asdict(self.game),
                "algo": asdict(replace(self.algo, kl=Kl(args.beta))),
                "data": asdict(self.data),
                "rollout": {
                    "max_new_tokens": args.max_completion_length,
                    "temperature": args.temperature,
                    "performing": asdict(self.performing),
                    "detection": asdict(self.detection),
                    "chat_template_kwargs": json.dumps(args.chat_template_kwargs or {}),
                },
                "actor": {"model_name_or_path": model},
            },
        }


def deal_share(
    documents: Sequence[Document], settings: Games, args: Any, curriculum: Curriculum, budget: PromptBudget
) -> list[Game]:
    """Deal the games of this process. Documents and seeds of a whole batch don't depend on the number of processes."""
    per_document = args.num_generations // settings.rows_per_game
    numbered = list(enumerate(document for document in documents for _ in range(per_document)))
    share = len(numbered) // args.world_size
    first, step, game = args.process_index * share, curriculum.iteration + 1, settings.game
    return [
        deal_to_fit(document, game.task, game.rules, f"{args.seed}/{step}/{i}", curriculum.trained, budget)
        for i, document in numbered[first : first + share]
    ]


def filled_up(samples: Sequence[Sample], count: int, pad: int) -> list[Sample]:
    """Return the samples, and after them blank ones up to ``count``: one token, which isn't trained."""
    shortest = min(samples, key=lambda sample: len(sample.prompt_ids))
    blank = replace(shortest, ids=(pad,), logprobs=(0.0,), reward=0.0)
    return [*samples, *[blank] * (count - len(samples))]


def as_rollout(rows: Sequence[Sample], trained: int) -> dict[str, list[Any]]:
    """Return tokens as they were sampled, as TRL's ``rollout_func`` must. Only the first ``trained`` rows aren't blank.

    ``earned`` goes to the reward function.
    """
    return {
        "prompt_ids": [list(row.prompt_ids) for row in rows],
        "completion_ids": [list(row.ids) for row in rows],
        "logprobs": [list(row.logprobs) for row in rows],
        "env_mask": [[int(i < trained)] * len(row.ids) for i, row in enumerate(rows)],
        "earned": [row.reward for row in rows],
    }


def trained_rows(scored: Mapping[str, Any], advantages: Sequence[float], parts: int) -> dict[str, Any]:
    """Return TRL's tensors with our advantages, and the log-probabilities that were sampled from as the ratio's denominator.

    Blank rows go, but for the few (fewer than ``parts``) that let the others be cut into equal micro-batches.
    """
    blank = -len(advantages) % parts
    kept = len(advantages) + blank
    batch = {name: value[:kept] if value.ndim else value for name, value in scored.items()}
    batch["advantages"] = batch["advantages"].new_tensor([*advantages, *[0.0] * blank])
    batch["old_per_token_logps"] = batch.pop("sampling_per_token_logps")
    return batch


def metrics_of(
    games: Sequence[Game], samples: Sequence[Sample], before: Curriculum, after: Curriculum
) -> dict[str, float]:
    """Return the metrics of a batch of all processes, TRL's own among them: trained replies alone, since it counts blank rows."""
    metrics = game_metrics(games, before.rewards) | sample_metrics(samples) | curriculum_metrics(after)
    lengths = [len(sample.ids) for sample in samples]
    ended = [len(sample.ids) for sample in samples if not sample.truncated] or [0]
    return {
        **metrics,
        "completions/min_length": min(lengths),
        "completions/max_length": max(lengths),
        "completions/mean_terminated_length": mean(ended),
        "completions/min_terminated_length": min(ended),
        "completions/max_terminated_length": max(ended),
        "rewards/votes/mean": metrics["reward"],
        "rewards/votes/std": metrics["reward_std"],
        **{f"game/trained/{stage}": float(stage in before.stages) for stage in (Stage.PERFORMING, Stage.DETECTION)},
    }


def write_curriculum(checkpoint: Path, curriculum: Curriculum, fixed: Mapping[str, Any]) -> None:
    """Write the curriculum into a checkpoint, with the settings that a resumed run must keep."""
    row = {"version": VERSION, "settings": fixed, "curriculum": json.loads(curriculum.to_json())}
    disk.write_whole(checkpoint / STATE, json.dumps(row, indent=2) + "\n")


def read_curriculum(checkpoint: Path, fixed: Mapping[str, Any]) -> Curriculum:
    """Read the curriculum of a checkpoint.

    Raises:
        ValueError: it isn't there or can't be read, or the run had other settings.
    """
    file = checkpoint / STATE
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
        then = {"version": row["version"], **row["settings"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{file} can't be read ({error!r}), and the run can't go on without it; give resume_from_checkpoint the folder of "
            "an older checkpoint, or begin a new run in another output_dir"
        ) from error
    for name, value in {"version": VERSION, **fixed}.items():
        if then.get(name) != value:
            raise ValueError(
                f"{checkpoint} was made with {name} {then.get(name)!r}, and now it is {value!r}; resume with the same, or "
                "begin a new run in another output_dir"
            )
    return Curriculum.from_json(json.dumps(row["curriculum"]))
