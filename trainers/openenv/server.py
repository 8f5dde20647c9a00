"""The environment behind OpenEnv's application, with limits on sessions and a shutdown that tells them.

Routes are health, metadata, schema, and sessions over ``/ws``. A game is two steps of one session, so OpenEnv's stateless
HTTP steps mean nothing here, and its tool protocol has no tools.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Awaitable, Callable, MutableMapping
from random import Random
from socket import socket
from typing import Any
from uuid import uuid4

import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import (
    Action,
    EnvironmentMetadata,
    Observation,
    ResetRequest,
    ServerMode,
    State,
    WSErrorCode,
)
from pydantic import Field

from spy_env import Stage, __version__, to_json
from trainers.openenv.offer import Offer, SeatGame, check_text

ROUTES = ("/ws", "/health", "/metadata", "/schema", "/openapi.json")
GRACE_S = 5  # seconds for steps in progress when the server stops; our choice
ESCAPED = 12  # bytes of a character in JSON at worst: two \uXXXX
BESIDES = 16_384  # bytes of a message beside its texts; our choice

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class SpyAction(Action):
    """A seat's whole reply, in both stages."""

    text: str = Field(description="the reply: a performance after the task's marker, or a vote in \\boxed{}")


class SpyObservation(Observation):
    """One seat's view. Role, vote, rewards and record stay empty until the game is over."""

    prompt: str = Field(description="everything the seat may know; empty when the game is over")
    stage: str = Field(description="performing, detection or over")
    seat: str = Field(description="the seat whose view this is")
    role: str | None = Field(default=None, description="spy, civilian or referee")
    vote: str | None = Field(default=None, description="the seat's vote as it was read: a seat, abstain or unreadable")
    performing_reward: float | None = None
    detection_reward: float | None = None
    record: str | None = Field(default=None, description="the game as a line of JSON, which spyrl replay reads")


class SpyEnvironment(Environment[SpyAction, SpyObservation, State]):
    """One session: a game as one seat sees it, with a step to perform and a step to vote."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, offer: Offer) -> None:
        super().__init__()
        self._offer = offer
        self._chance = Random()  # until the first seed
        self._session: SeatGame | None = None
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> SpyObservation:
        """Deal a game; without a seed, the next one of this session's stream. ``Offer.deal`` reads the options.

        Raises:
            ValueError: an argument is wrong or isn't offered (pydantic's error, a kind of it, for the first two).
            OpponentsFailedError: another seat gave no reply.
        """
        request = ResetRequest(seed=seed, episode_id=episode_id)
        chance = self._chance if request.seed is None else Random(request.seed)
        session = self._offer.deal(options, chance)
        game = session.game
        self._session, self._chance = session, chance
        name = request.episode_id or str(uuid4())
        self._state = State(episode_id=name, task=game.task, seat=session.seat, players=game.rules.players)
        return self._observation(session)

    def step(self, action: SpyAction, timeout_s: float | None = None, **_: Any) -> SpyObservation:
        """Reply, and have the others play up to this seat's next turn or the end. A refused reply isn't played.

        Raises:
            ValueError: no game runs here, or the reply is too long.
            OpponentsFailedError: another seat gave no reply.
        """
        if self._session is None:
            raise ValueError("no game runs in this session; reset deals one, over the same connection")
        self._session = self._session.replied(check_text("the reply", action.text, self._offer.max_text))
        self._state.step_count += 1
        return self._observation(self._session)

    def _observation(self, session: SeatGame) -> SpyObservation:
        game, seat = session.game, session.seat
        self._state.stage = game.stage
        view = SpyObservation(prompt=session.prompt, stage=game.stage, seat=seat)
        if game.stage is not Stage.OVER:
            return view
        rewards = game.rewards(self._offer.rewards)
        performing, detection = rewards.performing.get(seat, 0.0), rewards.detection.get(seat, 0.0)
        end = {
            "done": True,
            "reward": performing + detection,
            "role": game.role(seat),
            "vote": game.votes().get(seat),
            "performing_reward": performing,
            "detection_reward": detection,
            "record": to_json(game),
        }
        return view.model_copy(update=end)

    @property
    def state(self) -> State:
        """The session's progress: nothing that its seat doesn't know."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the description that OpenEnv's tools show."""
        return EnvironmentMetadata(
            name="spy_env",
            description='One seat of the game "Who is the spy?"; votes are verifiable rewards for open-ended tasks.',
            version=__version__,
        )


class _Connection:
    """A session's two directions. After its end the application reads that the client has left, and sends nothing."""

    def __init__(self, receive: Receive, send: Send, idle_s: float) -> None:
        self._receive, self._send, self._idle_s = receive, send, idle_s
        self._ended = False

    async def receive(self) -> Message:
        """Return the client's next message; one that the application couldn't read is answered here."""
        while not self._ended:
            try:
                message = await asyncio.wait_for(self._receive(), self._idle_s)
                if message["type"] == "websocket.receive":
                    message["text"] = read_message(message.get("text") or "")  # binary messages have no text
                return message
            except TimeoutError:
                await self.end(f"nothing came for {self._idle_s:g} s, so this session is over; connect anew", 1008)
            except ValueError as error:
                await self._send_error(str(error), WSErrorCode.INVALID_JSON)
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(self, message: Message) -> None:
        if self._ended:
            return
        self._ended = message["type"] == "websocket.close"
        try:
            await self._send(message)
        except OSError:  # the client has hung up; the application learns it when it next receives
            self._ended = True

    async def end(self, why: str, code: int) -> None:
        """Say why the session ends, and close it."""
        await self._send_error(why, WSErrorCode.SESSION_ERROR)
        await self.send({"type": "websocket.close", "code": code, "reason": why})

    async def _send_error(self, why: str, code: WSErrorCode) -> None:
        error = {"type": "error", "data": {"message": why, "code": code}}
        await self.send({"type": "websocket.send", "text": json.dumps(error)})


def read_message(text: str) -> str:
    """Return a JSON object as the application can read it: with ``?`` for a lone surrogate, which no answer can repeat.

    Raises:
        ValueError: the message is something else.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the message can't be read as JSON ({type(error).__name__}); send a JSON object") from error
    if not isinstance(message, dict):
        raise ValueError(f"the message is a JSON {type(message).__name__}; send an object with a type")
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace").decode()


class Server(uvicorn.Server):
    """uvicorn, which ends sessions that are idle too long, and tells all of them before it stops."""

    def __init__(self, app: FastAPI, idle_s: float, max_text: int) -> None:
        config = uvicorn.Config(
            self.connect,
            interface="asgi3",
            log_level="warning",
            lifespan="on",
            ws_max_size=ESCAPED * max_text + BESIDES,
            timeout_graceful_shutdown=GRACE_S,
        )
        super().__init__(config)
        self._app, self._idle_s = app, idle_s
        self._connections: set[_Connection] = set()

    async def connect(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a connection. Its query is dropped: it could name the session of another connection."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        connection = _Connection(receive, send, self._idle_s)
        self._connections.add(connection)
        try:
            await self._app({**scope, "query_string": b""}, connection.receive, connection.send)
        finally:
            self._connections.discard(connection)

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Accept connections, and print the address."""
        await super().startup(sockets)
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        print(f"serving on http://{host}:{port}", flush=True)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Tell every session that the server stops, even one whose step is in progress, and close."""
        why = "the server is stopping; the game of this session is lost"
        ends = [connection.end(why, 1001) for connection in self._connections]
        with contextlib.suppress(TimeoutError):  # a client that reads nothing holds nobody up
            await asyncio.wait_for(asyncio.gather(*ends, return_exceptions=True), GRACE_S)
        await super().shutdown(sockets)


def serve(offer: Offer, listening: socket, max_sessions: int, idle_s: float) -> None:
    """Serve OpenEnv's application for sessions of ``SpyEnvironment`` until SIGINT or SIGTERM."""
    app = FastAPI(title="spy_env")
    environments = HTTPEnvServer(lambda: SpyEnvironment(offer), SpyAction, SpyObservation, max_sessions)
    environments.register_routes(app, ServerMode.PRODUCTION)
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", None) in ROUTES]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # uvicorn raises it again after it has stopped; then it is no failure
    Server(app, idle_s, offer.max_text).run(sockets=[listening])
