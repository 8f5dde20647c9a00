"""OpenEnv's environment: a session's seat. Nothing is shared between sessions but what never changes."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from spy_env import Stage, __version__, to_json
from trainers.openenv.models import SpyAction, SpyObservation, SpyState
from trainers.openenv.offer import Offer, check_text, deal_wish, read_wish
from trainers.openenv.seat_game import SeatGame


class SpyEnvironment(Environment[SpyAction, SpyObservation, SpyState]):
    """A game as one seat sees it: a step to perform, a step to vote, where the seat has both to do."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, offer: Offer) -> None:
        """A session of a server."""
        super().__init__()
        self._offer = offer
        self._random = Random()  # until the first seed
        self._now: SeatGame | None = None
        self._state = SpyState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> SpyObservation:
        """Deal a game; without a seed the next one of this session's stream of games. Options: see ``offer.read_wish``.

        Raises:
            ValueError: what is asked for is wrong or isn't offered.
            OpponentsFailedError: another seat gave no reply.
        """
        if seed is not None and type(seed) is not int:
            raise ValueError(f"seed is {type(seed).__name__}; give a whole number")
        name = str(uuid4()) if episode_id is None else check_text("episode_id", episode_id, 255)
        wish = read_wish(options, self._offer)
        chance = self._random if seed is None else Random(seed)
        now = deal_wish(wish, self._offer, chance)
        self._now, self._random = now, chance
        self._state = SpyState(
            episode_id=name, task=wish.task, seat=wish.seat, stage=now.game.stage, players=wish.rules.players
        )
        return self._told(now)

    def step(self, action: SpyAction, timeout_s: float | None = None, **_: Any) -> SpyObservation:
        """Reply, and have the others play up to this seat's next turn or the end. A reply that is refused isn't played.

        Raises:
            ValueError: no game runs here, or the reply isn't text of allowed length.
            OpponentsFailedError: another seat gave no reply.
        """
        if self._now is None:
            raise ValueError("no game runs in this session; reset deals one, over the same connection")
        self._now = self._now.replied(check_text("the reply", action.text, self._offer.max_text))
        self._state.step_count += 1
        self._state.stage = self._now.game.stage
        return self._told(self._now)

    @property
    def state(self) -> SpyState:
        """Where the session stands."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """What OpenEnv's tools show."""
        return EnvironmentMetadata(
            name="spy_env",
            description='One seat of the game "Who is the spy?"; votes are verifiable rewards for open-ended tasks.',
            version=__version__,
        )

    def _told(self, now: SeatGame) -> SpyObservation:
        game, seat = now.game, now.seat
        if game.stage is not Stage.OVER:
            return SpyObservation(prompt=now.prompt, stage=game.stage, seat=seat)
        earned = game.rewards(self._offer.rewards)
        performing, detection = earned.performing.get(seat, 0.0), earned.detection.get(seat, 0.0)
        return SpyObservation(
            prompt="",
            stage=game.stage,
            seat=seat,
            done=True,
            reward=performing + detection,
            role=game.role(seat),
            vote=game.votes().get(seat),
            performing_reward=performing,
            detection_reward=detection,
            record=to_json(game),
        )
