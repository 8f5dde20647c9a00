"""Brings the calls of a row to a table, has its games played, and gives each call its sample."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from spy_env import Stage
from trainers.encoder import Encoder
from trainers.openrlhf.answer import Answer, answer_of, evaluation_of
from trainers.openrlhf.dealing import deal_games, places_of
from trainers.openrlhf.engine import CalledEngine
from trainers.openrlhf.invitation import EVAL, TRAIN, Invitation, RunSettings, from_json
from trainers.rollout import Played
from trainers.room import Room
from trainers.samples import samples_of
from trainers.table import Table, play_games

if TYPE_CHECKING:
    from trainers.openrlhf.director import Assigned
    from trainers.openrlhf.director_actor import Direction

MEETING_S = 60.0  # our choice: OpenRLHF makes a row's calls in one go


class Host:
    """The tables of one engine."""

    def __init__(self, direction_of: Callable[[RunSettings], Awaitable[Direction]]) -> None:
        """``direction_of`` finds the director of a run."""
        self._direction_of = direction_of
        self._direction: asyncio.Task[Direction] | None = None
        self._filling: dict[str, Table[Answer]] = {}
        self._encoder: Encoder | None = None
        self._dealing = asyncio.Lock()

    async def sample(self, text: str, params: Any, max_length: int, tokenizer: Any, llm_engine: Any) -> Answer:
        """One sample of a row: the k-th call that comes gets the k-th place.

        Raises:
            ValueError: the row or OpenRLHF's settings are not those of a prepared run.
            TimeoutError, GamesFailedError: the row could not be played; all of its calls are told.
        """
        table = self._filling.get(text)  # OpenRLHF makes a row's calls in one go, so no other row's come between them
        if table is None or not table.open:
            invitation = from_json(text)
            _check(invitation, params, max_length)
            engine = CalledEngine(
                llm_engine, self._encoder_of(invitation, tokenizer), params, invitation.run.deadline_s
            )
            table = Table(invitation.samples, partial(self._play, invitation, engine), MEETING_S)
            self._filling[text] = table
        try:
            return await table.join()
        finally:
            if self._filling.get(text) is table and not table.open:
                del self._filling[text]

    async def _play(self, invitation: Invitation, engine: CalledEngine) -> list[Answer]:
        direction = await self._joined(invitation.run)
        if invitation.split == EVAL:
            return await self._evaluate(invitation, engine, direction)
        assigned = await direction.begin(invitation.seed)
        try:
            return await self._train(invitation, engine, direction, assigned)
        except BaseException:
            with contextlib.suppress(Exception):  # what went wrong first is what the calls are told
                await direction.give_up(invitation.seed)
            raise

    async def _joined(self, run: RunSettings) -> Direction:
        """The director, found once however many tables ask at a time; where it wasn't, the next asks again."""
        if self._direction is None or (self._direction.done() and self._direction.exception()):
            self._direction = asyncio.ensure_future(self._direction_of(run))
        return await asyncio.shield(self._direction)

    async def _train(
        self, invitation: Invitation, engine: CalledEngine, direction: Direction, assigned: Assigned
    ) -> list[Answer]:
        curriculum = assigned.curriculum
        played = await self._played(invitation, assigned.iteration, curriculum.stage, engine)
        games = [one.game for one in played]
        worth = curriculum.advantages(games, curriculum.stage)
        answers = [
            answer_of(
                played[place.game], place, worth.get((games[place.game].seed, place.seat), 0.0), curriculum.rewards
            )
            for place in places_of(games, curriculum.stage, invitation.samples)
        ]
        samples = samples_of(played, curriculum.stage, curriculum.rewards)
        await direction.finish(
            invitation.seed, games, [replace(sample, prompt_ids=(), logprobs=()) for sample in samples]
        )
        return answers

    async def _evaluate(self, invitation: Invitation, engine: CalledEngine, direction: Direction) -> list[Answer]:
        played = await self._played(invitation, 0, None, engine)
        games = [one.game for one in played]
        await direction.evaluated(invitation.seed, games)
        places = places_of(games, None, invitation.samples)
        return [evaluation_of(played[place.game], place, invitation.run.start.rewards) for place in places]

    async def _played(
        self, invitation: Invitation, iteration: int, stage: Stage | None, engine: CalledEngine
    ) -> list[Played]:
        """The games of a row. Long documents take a while to fit, in which the engine works on the rows before."""
        room = Room([engine], invitation.run.sampling, invitation.run.max_len)
        async with self._dealing:
            dealt = await asyncio.to_thread(deal_games, invitation, iteration, stage, room)
        return await play_games(dealt, room, engine.generate)

    def _encoder_of(self, invitation: Invitation, tokenizer: Any) -> Encoder:
        """One for the whole run, since it remembers prompts; every call brings a tokenizer of its own."""
        if self._encoder is None:
            self._encoder = Encoder(tokenizer, dict(invitation.run.template_options))
        return self._encoder


def _check(invitation: Invitation, params: Any, max_length: int) -> None:
    """OpenRLHF runs with what the rows were prepared for."""
    run = invitation.run
    asked = {"--data.max_len": (max_length, run.max_len), "--rollout.top_p": (params.top_p, 1.0)}
    if invitation.split == TRAIN:
        wanted = {sampling.temperature for sampling in run.sampling.values()}
        asked["--rollout.temperature"] = (params.temperature, *wanted)
    for flag, (found, prepared) in asked.items():
        if found != prepared:
            raise ValueError(
                f"OpenRLHF runs with {flag} {found}, and the prompt data set was prepared for {prepared}; start it with the "
                "command that spyrl openrlhf prints"
            )
