"""The training loop in reading order: documents, deals, games, advantages, update, curriculum, records."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spy_env import Document, Game, read_games, write_games
from trainers.corpus import Corpus
from trainers.curriculum import Curriculum
from trainers.embedded.card import model_card
from trainers.embedded.checkpoints import Progress, RunFolder
from trainers.embedded.config import Config
from trainers.embedded.evaluation import comparison, evaluation_games, play_evaluation
from trainers.embedded.policy import Policy
from trainers.estimates import Estimate, measure
from trainers.first_run import HUB_MODEL, SMALL_MODEL, weights_sha256
from trainers.metrics import game_metrics, sample_metrics
from trainers.rollout import Played, Table, deal_to_fit, play_games
from trainers.samples import samples_of
from trainers.vllm_terms import installed_versions

if TYPE_CHECKING:
    from trainers.embedded.display import Display  # needs rich, and the loop does not


@dataclass(frozen=True, slots=True)
class Result:
    """What a run ends with."""

    folder: Path
    stages: Mapping[str, int]
    compared: Mapping[str, tuple[Estimate, Estimate]]
    example: Game | None
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Training:
    """What stays the same from one iteration to the next; the policy's weights change in place."""

    config: Config
    policy: Policy
    table: Table
    folder: RunFolder
    display: Display


def train(config: Config, model_folder: str, display: Display) -> Result:
    """Run a whole training, or what is left of one.

    Raises:
        ValueError: what was asked for can't be done; said before anything is generated.
        GamesFailedError, NotFiniteError: an iteration could not be trained; the last checkpoint is whole.
    """
    clock = _Clock(config)
    run = RunFolder(config)
    corpus = Corpus(
        config.game.task,
        config.data.documents,
        config.data.input_key,
        config.eval.games,
        config.data.max_samples,
        display.say,
    )
    policy = Policy(config, model_folder)
    table = Table(policy.engine, config.sampling, config.data.max_len)
    training = Training(config, policy, table, run, display)
    state = Progress(0, 0, Curriculum.start(config.schedule, config.reward_rules, config.game.rae, config.game.alpha))
    if config.ckpt.load_enable and (saved := run.resume(config, policy)):
        state = saved
        display.say(f"going on after iteration {state.step}")
    facts = _facts(config, model_folder, policy)
    run.write_config(config, facts)

    display.doing("playing held-out games before training")
    dealt = evaluation_games(config, corpus.held_out, table)
    before = _evaluated(run, "eval_before.jsonl", dealt, table, fresh=state.step == 0)
    clock.start_training()
    state = _iterations(training, corpus.training(state.documents), state, dealt, clock)

    display.doing("playing the same held-out games after training")
    after = _evaluated(run, "eval_after.jsonl", dealt, table, fresh=True)
    compared = comparison(before, after, config.reward_rules) if after else {}
    stages = run.trained_stages()
    policy.export(run.final)
    (run.final / "README.md").write_text(model_card(config, facts, stages, compared), encoding="utf-8")
    return Result(run.path, stages, compared, _example(after, run, state.step), facts)


def _iterations(
    training: Training, documents: Iterator[Document], state: Progress, dealt: Sequence[Game], clock: _Clock
) -> Progress:
    """All iterations, or as many as the time allows; checkpoints and evaluations between them."""
    config, run, first = training.config, training.folder, state.step
    with _Board(config.logger.tensorboard_dir, first) as board:
        while state.step < config.train.iterations and not clock.late(state.step - first):
            stage = _named(state.curriculum)
            state, metrics, seconds = iterate(training, documents, state)
            board.write(state.step, metrics)
            left = clock.left(state.step - first, config.train.iterations - state.step)
            training.display.step(state.step, stage, metrics, seconds, left)
            if config.eval.steps and state.step % config.eval.steps == 0:
                games = _evaluated(run, f"eval_{state.step:06d}.jsonl", dealt, training.table, fresh=True)
                measured = {name: estimate.value for name, estimate in measure(games, config.reward_rules).items()}
                run.append("evaluations.jsonl", {"step": state.step, **measured})
                board.write(state.step, {f"eval/{name}": value for name, value in measured.items()})
            if state.step % config.ckpt.save_steps == 0:
                run.save(config, training.policy, state)
    if state.step > first and state.step % config.ckpt.save_steps:
        run.save(config, training.policy, state)
    return state


def iterate(
    training: Training, documents: Iterator[Document], state: Progress
) -> tuple[Progress, dict[str, float], float]:
    """One iteration: play, score, update, move the curriculum, write. Nothing is written before the update is done.

    Returns the state after it, its metrics, and the seconds it took.
    """
    config, step, curriculum = training.config, state.step + 1, state.curriculum
    started = time.monotonic()
    training.display.doing("playing")
    batch = list(islice(documents, config.rollout.batch_size))
    played = play_games(deal_games(config, batch, curriculum, step, training.table), training.table)
    games = [one.game for one in played]
    generated = time.monotonic()

    training.display.doing("updating")
    metrics = update(training.policy, curriculum, played, config)
    moved = curriculum.after(games)
    updated = time.monotonic()

    stage = _named(curriculum)
    metrics |= _curriculum_metrics(moved) | {f"update_norm/{stage}": metrics["update_norm"]}
    training.folder.append("metrics.jsonl", {"step": step, "stage": stage, **metrics})
    tokens = sum(len(reply.ids) for one in played for replies in one.replies.values() for reply in replies.values())
    timings = {"generate_s": generated - started, "update_s": updated - generated, "tokens_generated": tokens}
    training.folder.append("timings.jsonl", {"step": step, **timings})
    write_games(training.folder.games_of(step), games)
    return Progress(step, state.documents + len(batch), moved), metrics, updated - started


def _named(curriculum: Curriculum) -> str:
    return str(curriculum.trained or "joint")


def deal_games(
    config: Config, batch: Sequence[Document], curriculum: Curriculum, step: int, table: Table
) -> list[Game]:
    """The games of an iteration: as many on each document as its samples seat."""
    a_document = config.rollout.n_samples_per_prompt // config.game.players
    return [
        deal_to_fit(
            document, config.game.task, config.rules, f"{config.train.seed}/{step}/{i}", curriculum.trained, table
        )
        for i, document in enumerate(document for document in batch for _ in range(a_document))
    ]


def update(policy: Policy, curriculum: Curriculum, played: Sequence[Played], config: Config) -> dict[str, float]:
    """Samples, their advantages, and the policy's update on them; returns the metrics of all three."""
    games = [one.game for one in played]
    samples, advantages = [], []
    for stage in curriculum.stages:
        own = samples_of(played, stage, config.reward_rules)
        worth = curriculum.advantages(games, stage)
        samples += own
        advantages += [worth[sample.game, sample.seat] for sample in own]
    metrics = game_metrics(games, config.reward_rules) | sample_metrics(samples)
    return metrics | policy.update(samples, advantages) | {"learning_rate": config.actor.adam.lr}


def _curriculum_metrics(curriculum: Curriculum) -> dict[str, float]:
    baselines = {f"game/baseline/{key}": value for key, value in curriculum.baselines.items()}
    return baselines | {
        "game/accuracy_average": curriculum.accuracy.value,
        "game/abstention_average": curriculum.abstention.value,
        "game/forced_switches": float(curriculum.forced),
    }


def _evaluated(run: RunFolder, name: str, dealt: Sequence[Game], table: Table, fresh: bool) -> list[Game]:
    """Play the held-out games; or read them, for a resumed run that played them before it trained.

    Raises:
        ValueError: they are to be read and aren't all there; the model of then is gone.
    """
    file = run.games / name
    if not fresh and dealt:
        saved = list(read_games(file)) if file.exists() else []
        if len(saved) != len(dealt):
            raise ValueError(
                f"{file} holds {len(saved)} of the {len(dealt)} games played before training, and the model has been trained since; begin a new run in another --ckpt.output_dir, or without --eval.games"
            )
        return saved
    file.unlink(missing_ok=True)
    games = play_evaluation(dealt, table) if dealt else []
    write_games(file, games)
    return games


def _example(after: Sequence[Game], run: RunFolder, step: int) -> Game | None:
    """One game to show in full: of the held-out ones, else the last trained on."""
    if after or not step:
        return after[0] if after else None
    return next(iter(read_games(run.games_of(step))), None)


class _Clock:
    """How long a run may take and how long it will. The evaluation after training takes as long as the one before."""

    def __init__(self, config: Config) -> None:
        self._limit = 60 * config.train.max_minutes if config.train.max_minutes is not None else float("inf")
        self._begun = self._trains_since = time.monotonic()

    def start_training(self) -> None:
        self._trains_since = time.monotonic()

    def late(self, done: int) -> bool:
        """Whether another iteration would leave too little time for the evaluation at the end; never before the first."""
        return bool(done) and self._elapsed() + self._needed(done, 1) > self._limit

    def left(self, done: int, to_do: int) -> float:
        """Seconds until the end, at the pace of the iterations done."""
        return min(self._needed(done, to_do), self._limit - self._elapsed())

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _needed(self, done: int, to_do: int) -> float:
        evaluation = self._trains_since - self._begun
        return (self._elapsed() - evaluation) / done * to_do + evaluation


def _facts(config: Config, model_folder: str, policy: Policy) -> dict[str, Any]:
    names = ("spy-env", "torch", "transformers", "peft")
    folder = Path(model_folder)
    return {
        "base_model": HUB_MODEL if config.actor.model_name_or_path == SMALL_MODEL else config.actor.model_name_or_path,
        "weights_sha256": weights_sha256(folder) if folder.is_dir() else "",
        "model_folder": str(folder),
        "device": str(policy.device),
        "arithmetic": "bf16" if policy.bf16 else "fp32",
        "versions": {name: _version(name) for name in names}
        | (installed_versions() if config.rollout.engine == "vllm" else {}),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


class _Board:
    """TensorBoard, where it is asked for."""

    def __init__(self, folder: str | None, first: int) -> None:
        """Write to ``folder``; what an interrupted run wrote after iteration ``first`` is purged."""
        self._writer: Any = None
        if folder:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(folder, purge_step=first + 1)

    def __enter__(self) -> _Board:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer:
            self._writer.close()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._writer:
            for name, value in metrics.items():
                self._writer.add_scalar(name, value, step)
