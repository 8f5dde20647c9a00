"""The training loop in reading order: documents, deals, games, advantages, update, curriculum, records."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spy_env import Document, Game, Stage, read_games
from spy_env.diagnostics import diagnose
from spy_env.diagnostics.shortcuts import LEVEL
from spy_env.seats import ROLES
from trainers.config import Config
from trainers.corpus import Corpus
from trainers.curriculum import Curriculum
from trainers.disk import new_folder, weights_sha256
from trainers.embedded import trackers
from trainers.embedded.card import model_card
from trainers.embedded.checkpoints import Progress, RunFolder
from trainers.embedded.engine import ROWS, TOKENS
from trainers.embedded.evaluation import Comparison, HeldOut, matches_of
from trainers.embedded.lineup import check, drawn_at
from trainers.embedded.opponents import Batch, EarlierWeights, Opponents
from trainers.embedded.policy import Policy, policy_of
from trainers.embedded.warm_start import NAME, right_votes
from trainers.engines import Engine
from trainers.engines.vllm_terms import installed_versions
from trainers.metrics import changes, curriculum_metrics, game_metrics, learner_metrics, sample_metrics
from trainers.prompt_budget import deal_to_fit
from trainers.rollout import Played, SeatPolicies, rollout
from trainers.samples import samples_of
from trainers.small_model import hub_name

if TYPE_CHECKING:
    from trainers.embedded.display import Display  # needs rich, and the loop does not


class Clock:
    """The time that a run has taken and will take. Evaluating after training is expected to take as long as before it."""

    def __init__(self, max_minutes: float | None) -> None:
        self._limit = 60 * max_minutes if max_minutes is not None else float("inf")
        self._begun = self._trains_since = time.monotonic()
        self._evaluation = 0.0

    def start_training(self, evaluation: float) -> None:
        """Note that training begins now, and that playing the held-out games took ``evaluation`` seconds."""
        self._trains_since, self._evaluation = time.monotonic(), evaluation

    def late(self, done: int) -> bool:
        """Return whether another iteration would leave too little time for the last evaluation; never before the first."""
        return bool(done) and self._elapsed() + self._needed(done, 1) > self._limit

    def left(self, done: int, to_do: int) -> float:
        """Estimate the seconds until the end from the iterations done."""
        return min(self._needed(done, to_do), self._limit - self._elapsed())

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _needed(self, done: int, to_do: int) -> float:
        return (time.monotonic() - self._trains_since) / done * to_do + self._evaluation


GAMES = 64  # that diagnostics look at: enough to see a strong shortcut, at a bounded cost; our choice


def last_games(before: Sequence[Game], new: Sequence[Game]) -> tuple[Game, ...]:
    """Return the games to diagnose after an iteration. Checkpoints keep them, since files of games may be removed."""
    return (*before, *new)[-GAMES:]


class Watch:
    """Diagnoses a run's last games after each iteration. Its only state is which warnings were given."""

    def __init__(self, iterations: int, games_per_iteration: int, say: Callable[[str], None]) -> None:
        """Watch a run of so many iterations and games; ``say`` takes warnings."""
        self._say = say
        new = -(-GAMES // games_per_iteration)  # after so many iterations all games are new
        self._iterations = min(new, iterations)  # a short run is looked at once, at its end
        looks = max(1, iterations // self._iterations)
        self._level = LEVEL / looks  # so that false alarms stay within LEVEL over the whole run
        self._warned: set[str] = set()

    def after(self, step: int, games: Sequence[Game]) -> dict[str, float]:
        """Return the metrics of the last games, which end with those of iteration ``step``.

        Warnings are looked for whenever all the games are new, since each look is another chance of a false alarm.
        """
        diagnosis = diagnose(games, self._level, resamples=0)
        if step % self._iterations == 0:
            for name, text in diagnosis.alarms.items():
                if name not in self._warned:
                    self._warned.add(name)
                    self._say(f"warning {name}, iterations {step - self._iterations + 1} to {step}: {text}")
        return diagnosis.metrics


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a run."""

    folder: Path
    stages: Mapping[str, int]
    compared: Comparison
    deals: int  # held out
    example: Game | None
    example_before: Game | None  # the same deal before training
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Training:
    """The parts that all iterations share; only the policy's weights change, in place."""

    config: Config
    policy: Policy
    seats: SeatPolicies
    opponents: Opponents
    folder: RunFolder
    display: Display
    watch: Watch


def train(config: Config, model_folder: str, display: Display) -> Result:
    """Run a whole training, or what is left of one.

    Raises:
        ValueError: a setting can't be followed; raised before anything is generated.
        GamesFailedError, NotFiniteError, NotWrittenError: an iteration could not be trained or written; the last
            checkpoint is whole.
    """
    check(config)
    clock = Clock(config.train.max_minutes)
    run = RunFolder(config.ckpt, config.opponents.pool if "past" in config.opponent_of.values() else 0)
    corpus = Corpus(
        config.game.task,
        config.data.documents,
        config.data.input_key,
        config.eval.games,
        config.data.max_samples,
        display.say,
    )
    policy = policy_of(config, model_folder)
    seats = SeatPolicies(policy.engine, config.sampling, config.data.max_len)
    opponents = _opponents(config, policy, run)
    watch = Watch(config.all_iterations, config.games_per_iteration, display.say)
    training = Training(config, policy, seats, opponents, run, display, watch)
    state = Progress(0, 0, config.start_curriculum(), ())
    if config.ckpt.load_enable and (saved := run.resume(config.without_secrets(), policy)):
        state = saved
        display.say(f"going on after iteration {state.step}")
    facts = _facts(config, model_folder, policy)
    with trackers.opened(config.logger, config.without_secrets(), run.path, state.step) as tell:
        run.write_config(config.without_secrets(), facts)
        display.doing("playing held-out games before training")
        held_out = _held_out(config, run, corpus.held_out, opponents.judging(seats), opponents.of_evaluations)
        before = held_out.before(state.step)
        if state.step == 0 and (point := held_out.record(0, before)):
            tell(0, point)
        clock.start_training(run.evaluation_seconds())
        state = _iterations(training, corpus.training(state.documents), state, held_out, clock, tell)

        display.doing("playing the same held-out games after training")
        games, after = held_out.evaluate("after")
        if point := held_out.record(state.step, after):
            tell(state.step, point)
    games_before = held_out.games_before()
    compared = Comparison({name: (before[name], after[name]) for name in before}, changes(games_before, games))
    stages = run.trained_stages()
    with new_folder(run.final) as folder:
        policy.export(folder)
        (folder / "README.md").write_text(model_card(config, facts, stages, compared), encoding="utf-8")
    example_before = games_before[0] if games_before else None
    return Result(run.path, stages, compared, len(games), _example(games, run, state.step), example_before, facts)


def _opponents(config: Config, policy: Policy, run: RunFolder) -> Opponents:
    rollout = config.rollout
    batch = Batch(rollout.micro_batch_size or ROWS, rollout.max_tokens_per_gpu or TOKENS, config.template_options)
    earlier = EarlierWeights(policy, run.checkpoint_of, batch)

    def drawn(step: int) -> int:
        return drawn_at(step, config.train.seed, config.ckpt.save_steps, config.opponents.pool)

    return Opponents(config.opponent_of, config.eval.opponent, drawn, earlier, batch)


def _held_out(
    config: Config, run: RunFolder, documents: Sequence[Document], seats: SeatPolicies, opponent: Engine | None
) -> HeldOut:
    """Deal a game on each held-out document. Its prompts fit the learner's engine and the opponent's."""
    matches = matches_of(seats, opponent)
    everybody = list(matches.values())[-1]  # the seats of a match against the opponent, where there is one
    deals = [
        deal_to_fit(
            document, config.game.task, config.game.rules, f"{config.train.seed}/eval/{i}", None, everybody.budget
        )
        for i, document in enumerate(documents)
    ]
    curves = bool(config.eval.opponent or config.eval.steps)
    return HeldOut(run, config.game.reward_rules, deals, matches, curves, config.eval.opponent)


def _iterations(
    training: Training,
    documents: Iterator[Document],
    state: Progress,
    held_out: HeldOut,
    clock: Clock,
    tell: trackers.Write,
) -> Progress:
    """Run all iterations, or as many as the time allows, with checkpoints and evaluations between them."""
    config, run, first = training.config, training.folder, state.step
    while state.step < config.all_iterations and not clock.late(state.step - first):
        stage = stage_named(config, state)
        state, metrics, seconds = iterate(training, documents, state)
        left = clock.left(state.step - first, config.all_iterations - state.step)
        training.display.step(state.step, stage, metrics, seconds, left)
        if config.eval.steps and state.step % config.eval.steps == 0:
            _, measured = held_out.evaluate(f"{state.step:06d}")
            metrics = metrics | held_out.record(state.step, measured)
        tell(state.step, metrics)
        if state.step % config.ckpt.save_steps == 0:
            run.save(config.without_secrets(), training.policy, state)
    if state.step > first and state.step % config.ckpt.save_steps:
        run.save(config.without_secrets(), training.policy, state)
    return state


def iterate(
    training: Training, documents: Iterator[Document], state: Progress
) -> tuple[Progress, dict[str, float], float]:
    """Run one iteration: play, score, update, move the curriculum, write. Nothing is written before the update is done.

    Returns the state after it, its metrics, and the seconds it took.
    """
    config, step, curriculum = training.config, state.step + 1, state.curriculum
    started = time.monotonic()
    training.display.doing("playing")
    batch = list(islice(documents, config.rollout.batch_size))
    seats = training.opponents.seats_at(training.seats, step)
    played = rollout(deal_games(config, batch, curriculum, step, seats), seats)
    games = [one.game for one in played]
    generated = time.monotonic()

    training.display.doing("updating")
    if config.warms_up(step):
        metrics, moved = warm_up(training.policy, played, config), curriculum
    else:
        metrics, moved = update(training.policy, curriculum, played, config), curriculum.after(games)
    updated = time.monotonic()

    stage = stage_named(config, state)
    metrics |= curriculum_metrics(moved) | {f"update_norm/{stage}": metrics["update_norm"]}
    met = {f"opponent/{role}": name for role, name in training.opponents.names_at(step).items()}
    seen = last_games(state.watched, games)
    metrics |= training.watch.after(step, seen)
    watched = time.monotonic()
    training.folder.append("metrics.jsonl", {"step": step, "stage": stage, **met, **metrics})
    tokens = sum(len(reply.ids) for one in played for replies in one.replies.values() for reply in replies.values())
    timings = {"generate_s": generated - started, "update_s": updated - generated, "watch_s": watched - updated}
    training.folder.append("timings.jsonl", {"step": step, **timings, "tokens_generated": tokens})
    training.folder.write_games(training.folder.games_of(step), games)
    return Progress(step, state.documents + len(batch), moved, seen), metrics, watched - started


def stage_named(config: Config, state: Progress) -> str:
    """Name the stage that the iteration after ``state`` trains, as it is shown and logged."""
    return NAME if config.warms_up(state.step + 1) else str(state.curriculum.trained or "joint")


def deal_games(
    config: Config, batch: Sequence[Document], curriculum: Curriculum, step: int, seats: SeatPolicies
) -> list[Game]:
    """Deal the games of an iteration: per document as many as its samples seat. Seeds of the warm start say so."""
    per_document = config.rollout.n_samples_per_prompt // config.game.players
    warm = config.warms_up(step)
    run = f"{config.train.seed}/{NAME}" if warm else f"{config.train.seed}"
    return [
        deal_to_fit(
            document,
            config.game.task,
            config.game.rules,
            f"{run}/{step}/{i}",
            Stage.DETECTION if warm else curriculum.trained,
            seats.budget,
        )
        for i, document in enumerate(document for document in batch for _ in range(per_document))
    ]


def update(policy: Policy, curriculum: Curriculum, played: Sequence[Played], config: Config) -> dict[str, float]:
    """Update the policy on the samples of some games and their advantages. Return the metrics of all three.

    A game's trained voters share a role, so a detection group is the learner's as a whole or not at all.
    """
    games = [one.game for one in played]
    learner = tuple(role for role in ROLES if role not in config.opponent_of)
    samples, advantages = [], []
    for stage in curriculum.stages:
        of_stage = samples_of(played, stage, config.game.reward_rules, learner)
        advantage_of = curriculum.advantages(games, stage, learner)
        samples += of_stage
        advantages += [advantage_of[sample.game, sample.seat] for sample in of_stage]
    metrics = game_metrics(games, config.game.reward_rules) | sample_metrics(samples)
    if config.opponent_of:
        metrics |= learner_metrics(games, config.game.reward_rules, learner)
    return metrics | policy.update(samples, advantages) | {"learning_rate": config.actor.adam.lr}


def warm_up(policy: Policy, played: Sequence[Played], config: Config) -> dict[str, float]:
    """Fit the policy to the right votes of some games. Return metrics of both; rewards and baselines have no part in it."""
    learner = tuple(role for role in ROLES if role not in config.opponent_of)
    samples = right_votes(played, policy.tokenizer, config.sampling[Stage.DETECTION], learner)
    metrics = game_metrics([one.game for one in played], config.game.reward_rules) | sample_metrics(samples)
    return metrics | policy.fit(samples) | {"learning_rate": config.actor.adam.lr}


def _example(after: Sequence[Game], run: RunFolder, step: int) -> Game | None:
    """Choose a game to show in full: a held-out one, else one of the last iteration."""
    if after or not step:
        return after[0] if after else None
    return next(iter(read_games(run.games_of(step))), None)


def _facts(config: Config, model_folder: str, policy: Policy) -> dict[str, Any]:
    names = ("spy-env", "torch", "transformers", "peft")
    folder = Path(model_folder)
    return {
        "base_model": hub_name(config.actor.model_name_or_path),
        "weights_sha256": weights_sha256(folder) if folder.is_dir() else "",
        "model_folder": str(folder),
        "device": str(policy.device),
        "arithmetic": "bf16" if policy.bf16 else "fp32",
        "shared_prompts": policy.sharing or f"off: {policy.sharing_refused}",
        "versions": {name: _version(name) for name in names}
        | (installed_versions() if config.rollout.engine == "vllm" else {}),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
