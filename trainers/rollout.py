"""Play games with engines: all games advance together, one batch a stage and engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spy_env import Game, RawReply, Seat, Stage, observe
from trainers.engines import Engine, Failed, Reply, Request, Sampling
from trainers.prompt_budget import PromptBudget, fit_votes

RETRIES = 2  # how often a game is played again from the same deal when the infrastructure failed
STAGES = (Stage.PERFORMING, Stage.DETECTION)
Replies = Mapping[Stage, Mapping[Seat, Reply]]


class GamesFailedError(RuntimeError):
    """The infrastructure failed some games too often. Nothing of them was scored."""

    def __init__(self, failures: Sequence[tuple[Game, str]]) -> None:
        """Name the games and why each failed."""
        self.failures = list(failures)
        named = "; ".join(f"game {game.seed}: {reason}" for game, reason in failures[:3])
        more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
        super().__init__(f"{len(failures)} game(s) could not be played in {1 + RETRIES} tries: {named}{more}")

    def __reduce__(self) -> tuple[Any, ...]:
        """So that it comes whole through a process boundary; an exception is otherwise made anew from its message."""
        return type(self), (self.failures,)


@dataclass(frozen=True, slots=True)
class Played:
    """A game that is over, with the tokens behind its replies. Only the game is written to disk."""

    game: Game
    replies: Replies


@dataclass(frozen=True, slots=True)
class Seating:
    """Who plays and how: one engine for all seats, ``others`` for some, sampling by stage, and the prompt budget.

    ``others`` are named by seat or by role; a seat goes before its role. ``max_len`` is prompt + reply in tokens, for
    every engine; None where nothing limits them.
    """

    engine: Engine
    sampling: Mapping[Stage, Sampling]
    max_len: int | None = None
    others: Mapping[str, Engine] = field(default_factory=dict)

    def engine_of(self, game: Game, seat: Seat) -> Engine:
        """The engine that plays a seat of a game; which seat is the spy's, the game knows."""
        return self.others.get(seat) or self.others.get(game.role(seat)) or self.engine

    @property
    def engines(self) -> list[Engine]:
        """Every engine, once."""
        return list({id(engine): engine for engine in (self.engine, *self.others.values())}.values())

    @property
    def budget(self) -> PromptBudget:
        """The limit that every prompt must fit."""
        return PromptBudget(self.engines, self.sampling, self.max_len)


def play_games(
    games: Sequence[Game], seating: Seating, on_failure: Callable[[Game, str], None] | None = None
) -> list[Played]:
    """Play dealt games to their end, in order.

    A game that the infrastructure fails is played again from the same deal, ``RETRIES`` times at most. Then
    ``on_failure`` is told and the game is left out; without ``on_failure`` the error names it.

    Raises:
        GamesFailedError: games failed, and there is no ``on_failure``.
    """
    played: dict[str, Played] = {}
    failures: list[tuple[Game, str]] = []
    waiting = list(games)
    for _ in range(1 + RETRIES):
        failures = []
        for game, result in zip(waiting, _play_once(waiting, seating), strict=True):
            if isinstance(result, Failed):
                failures.append((game, result.reason))
            else:
                played[game.seed] = result
        waiting = [game for game, _ in failures]
        if not waiting:
            break
    if failures and on_failure is None:
        raise GamesFailedError(failures)
    for game, reason in failures:
        if on_failure is not None:
            on_failure(game, reason)
    return [played[game.seed] for game in games if game.seed in played]


def _play_once(games: Sequence[Game], seating: Seating) -> list[Played | Failed]:
    results: list[Played | Failed] = [Played(game, {}) for game in games]
    for stage in STAGES:
        going = [(i, result) for i, result in enumerate(results) if isinstance(result, Played)]
        for (i, _), after in zip(going, play_stage([result for _, result in going], stage, seating), strict=True):
            results[i] = after
    return results


def play_stage(played: Sequence[Played], stage: Stage, seating: Seating) -> list[Played | Failed]:
    """The games after a stage that all of them have reached: what each seat says, one batch an engine."""
    ready = [ready_for(one, stage, seating.budget) for one in played]
    answers: list[dict[Seat, Reply | Failed]] = [{} for _ in ready]
    by_engine: dict[int, list[tuple[int, Seat, Request]]] = {}
    for i, one in enumerate(ready):
        for seat, request in requests_of(one.game, stage, seating.sampling[stage]).items():
            by_engine.setdefault(id(seating.engine_of(one.game, seat)), []).append((i, seat, request))
    for engine in seating.engines:
        if not (batch := by_engine.get(id(engine))):
            continue
        replies = engine.generate([request for _, _, request in batch])
        for (i, seat, _), reply in zip(batch, replies, strict=True):
            answers[i][seat] = reply
    return [advance(one, stage, answer) for one, answer in zip(ready, answers, strict=True)]


def ready_for(played: Played, stage: Stage, budget: PromptBudget) -> Played:
    """The game as its prompts of ``stage`` are written: before the votes, what the ballot came to is made room for."""
    return replace(played, game=fit_votes(played.game, budget)) if stage is Stage.DETECTION else played


def requests_of(game: Game, stage: Stage, sampling: Sampling) -> dict[Seat, Request]:
    """What is asked of each seat that acts in ``stage``; all at once, nobody waits for another's reply."""
    return {
        seat: Request(prompt, f"{game.seed}/{stage}/{seat}", sampling) for seat, prompt in observe(game, stage).items()
    }


def advance(played: Played, stage: Stage, answers: Mapping[Seat, Reply | Failed]) -> Played | Failed:
    """The game after all have replied, or the first failure of the infrastructure."""
    replies: dict[Seat, Reply] = {}
    for seat, answer in answers.items():
        if isinstance(answer, Failed):
            return Failed(f"{seat} in stage {stage}: {answer.reason}")
        replies[seat] = answer
    raw = {seat: RawReply(reply.text, reply.prefix, reply.truncated) for seat, reply in replies.items()}
    return Played(played.game.with_replies(raw), {**played.replies, stage: replies})
