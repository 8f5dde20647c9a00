"""The one game loop: it drives the PettingZoo environment, whoever answers for the seats.

``play_games`` yields the prompts of a stage and is sent the replies. ``rollout`` answers it in batches, one per stage and
engine; ``play_game`` answers it from concurrent calls, for trainers that ask for one sample per call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from spy_env import STAGES, Game, Seat, Stage, observe
from spy_env.spy_v0 import Reply as Action
from spy_env.spy_v0 import raw_env
from trainers.engines import Engine, Failed, Reply, Request, Sampling
from trainers.prompt_budget import PromptBudget, fit_votes

RETRIES = 2  # how often a game is played again from the same deal when the infrastructure failed; our choice
T = TypeVar("T")
R = TypeVar("R")
Replies = Mapping[Stage, Mapping[Seat, Reply]]
Generate = Callable[[Request], Awaitable[Reply | Failed]]
"""One reply from an engine that batches by itself what is asked at the same time."""


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


class Question(NamedTuple):
    """A seat's turn: what it is asked in which game."""

    game: Game
    seat: Seat
    request: Request


class Answered(NamedTuple):
    """The games that were played, in order, and those that failed too often, with the reason."""

    played: list[Played]
    failures: list[tuple[Game, str]]


@dataclass(frozen=True, slots=True)
class SeatPolicies:
    """Who plays and how: one engine for all seats, ``others`` for some, sampling by stage, and the models' length.

    ``others`` are named by seat or by role; a seat goes before its role. ``max_len`` is prompt + reply in tokens, for
    every engine; None where nothing limits them.
    """

    engine: Engine
    sampling: Mapping[Stage, Sampling]
    max_len: int | None = None
    others: Mapping[str, Engine] = field(default_factory=dict)

    def engine_of(self, game: Game, seat: Seat) -> Engine:
        """Return the engine that plays a seat of a game."""
        return self.others.get(seat) or self.others.get(game.role(seat)) or self.engine

    @property
    def budget(self) -> PromptBudget:
        """The limit that every prompt must fit."""
        engines = {id(engine): engine for engine in (self.engine, *self.others.values())}
        return PromptBudget(list(engines.values()), self.sampling, self.max_len)


def play_games(
    games: Sequence[Game], budget: PromptBudget
) -> Generator[list[Question], Sequence[Reply | Failed], Answered]:
    """Play dealt games to their end: yields the questions of a stage in all games, and is sent their answers in order.

    A game that the infrastructure fails is played again from the same deal, ``RETRIES`` times at most.
    """
    played: dict[str, Played] = {}
    failures = [(game, "") for game in games]
    for _ in range(1 + RETRIES):
        tries = [(game, play_once(game, budget)) for game, _ in failures]
        states = [sent(turns, None) for _, turns in tries]
        while questions := [question for state in states if isinstance(state, list) for question in state]:
            answers = iter((yield questions))
            # every game takes its own answers, in order, and then asks on, is over, or has failed
            states = [
                sent(turns, [next(answers) for _ in state]) if isinstance(state, list) else state
                for (_, turns), state in zip(tries, states, strict=True)
            ]
        failures = []
        for (game, _), state in zip(tries, states, strict=True):
            if isinstance(state, Played):
                played[game.seed] = state
            elif isinstance(state, Failed):
                failures.append((game, state.reason))
        if not failures:
            break
    return Answered([played[game.seed] for game in games if game.seed in played], failures)


def play_once(game: Game, budget: PromptBudget) -> Generator[list[Question], Sequence[Reply | Failed], Played | Failed]:
    """Play one game in the environment, from where it is to its last vote, or to the first failure of the infrastructure."""
    env = raw_env(task=game.task, documents=[game.document], rules=game.rules)
    env.start(game)
    replies: dict[Stage, dict[Seat, Reply]] = {}
    for stage in STAGES[STAGES.index(game.stage) :]:
        if stage is Stage.DETECTION and (fitted := fit_votes(env.game, budget)) is not env.game:
            env.start(fitted)  # the ballot leaves the document less room than was allowed for
        questions = [
            Question(
                env.game, agent, _request(game, stage, agent, env.observe(agent)["prompt"], budget.sampling[stage])
            )
            for agent in env.agents
            if not env.infos[agent]["idle"]
        ]
        answers = yield questions
        replies[stage] = {}
        for question, answer in zip(questions, answers, strict=True):
            if isinstance(answer, Failed):
                return Failed(f"{question.seat} in stage {stage}: {answer.reason}")
            replies[stage][question.seat] = answer
        for agent in list(env.agents):  # in the order of turns
            reply = replies[stage].get(agent)
            env.step("" if reply is None else Action(reply.text, reply.prefix, reply.truncated))
    return Played(env.game, replies)


def sent(
    turns: Generator[list[Question], Sequence[Reply | Failed], R], answers: Sequence[Reply | Failed] | None
) -> list[Question] | R:
    """Send answers (None to begin) and return the next questions, or the generator's result at its end."""
    try:
        return turns.send(answers)  # type: ignore[arg-type] # a generator begins with None
    except StopIteration as end:
        result: R = end.value
        return result


def requests_of(game: Game, stage: Stage, sampling: Sampling) -> dict[Seat, Request]:
    """Return the request of each seat that acts in ``stage``, as it is made while the game is played."""
    return {seat: _request(game, stage, seat, prompt, sampling) for seat, prompt in observe(game, stage).items()}


def _request(game: Game, stage: Stage, seat: Seat, prompt: str, sampling: Sampling) -> Request:
    return Request(prompt, f"{game.seed}/{stage}/{seat}", sampling)


def rollout(
    games: Sequence[Game], seats: SeatPolicies, on_failure: Callable[[Game, str], None] | None = None
) -> list[Played]:
    """Play dealt games to their end, in order; all advance together, one batch per stage and engine.

    A game that failed too often is left out and given to ``on_failure`` with the reason.

    Raises:
        GamesFailedError: games failed, and there is no ``on_failure``.
    """
    turns = play_games(games, seats.budget)
    state = sent(turns, None)
    while isinstance(state, list):
        state = sent(turns, answer_in_batches(state, seats))
    if state.failures and on_failure is None:
        raise GamesFailedError(state.failures)
    for game, reason in state.failures:
        if on_failure is not None:
            on_failure(game, reason)
    return state.played


def answer_in_batches(questions: Sequence[Question], seats: SeatPolicies) -> list[Reply | Failed]:
    """Answer the questions of a stage in order, in one batch per engine."""
    batches: dict[int, tuple[Engine, list[int]]] = {}
    for i, question in enumerate(questions):
        engine = seats.engine_of(question.game, question.seat)
        batches.setdefault(id(engine), (engine, []))[1].append(i)
    answers: dict[int, Reply | Failed] = {}
    for engine, places in batches.values():
        replies = engine.generate([questions[i].request for i in places])
        answers.update(zip(places, replies, strict=True))
    return [answers[i] for i in range(len(questions))]


async def play_game(game: Game, budget: PromptBudget, generate: Generate) -> Played:
    """Play one dealt game to its end, in two waves of concurrent calls: all performances at once, then all votes.

    Raises:
        GamesFailedError: the infrastructure failed it too often.
    """
    turns = play_games([game], budget)
    state = sent(turns, None)
    while isinstance(state, list):
        state = sent(turns, await together(_asked(generate, question.request) for question in state))
    if state.failures:
        raise GamesFailedError(state.failures)
    return state.played[0]


async def _asked(generate: Generate, request: Request) -> Reply | Failed:
    return await generate(request)


async def together(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all, in order. The first that raises ends the others, and so does being cancelled."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
