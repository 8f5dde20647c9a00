"""One batch of games: this process's share of the deals, and what the batch comes to. Without TRL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spy_env import Document, Game, Stage
from trainers.curriculum import Curriculum
from trainers.metrics import curriculum_metrics, game_metrics, sample_metrics
from trainers.prompt_budget import deal_to_fit
from trainers.rollout import SeatPolicies
from trainers.samples import Sample
from trainers.trl.config import Games
from trainers.trl.progress import Progress
from trainers.trl.rows import length_metrics


@dataclass(frozen=True, slots=True)
class Iteration:
    """Games that are over; nothing of them is written before the update is done."""

    games: Sequence[Game]
    metrics: dict[str, float]
    stage: str
    play_s: float
    after: Progress


def own_deals(
    documents: Sequence[Document], settings: Games, args: Any, curriculum: Curriculum, seating: SeatPolicies
) -> list[Game]:
    """The games of this process. Documents and seeds of the whole batch don't depend on the number of processes."""
    a_document = args.num_generations // settings.rows_a_game
    numbered = list(enumerate(document for document in documents for _ in range(a_document)))
    share = len(numbered) // args.world_size
    first = args.process_index * share
    step = curriculum.iteration + 1
    return [
        deal_to_fit(
            document,
            settings.game.task,
            settings.game.rules,
            f"{args.seed}/{step}/{i}",
            curriculum.trained,
            seating.budget,
        )
        for i, document in numbered[first : first + share]
    ]


def iteration_of(
    games: Sequence[Game], samples: Sequence[Sample], before: Progress, documents: int, play_s: float
) -> Iteration:
    """What a batch comes to, over all processes."""
    curriculum = before.curriculum
    moved = curriculum.after(games)
    metrics = game_metrics(games, curriculum.rewards) | sample_metrics(samples) | curriculum_metrics(moved)
    stage = str(curriculum.trained or "joint")
    return Iteration(games, metrics, stage, play_s, Progress(before.documents + documents, moved))


def logged(samples: Sequence[Sample], done: Iteration, stages: Sequence[Stage]) -> dict[str, float]:
    """A batch's numbers among TRL's: ours, and TRL's own over the trained replies alone, without blank rows."""
    trained = {f"game/trained/{stage}": float(stage in stages) for stage in (Stage.PERFORMING, Stage.DETECTION)}
    rewards = {f"rewards/votes/{name}": done.metrics[f"reward{tail}"] for name, tail in (("mean", ""), ("std", "_std"))}
    return done.metrics | length_metrics(samples) | rewards | trained
