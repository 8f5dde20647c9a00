"""The server: OpenEnv's application behind limits, and a shutdown that tells every session.

Only what this environment has is routed: health, metadata, schema, and sessions over ``/ws``. A game is two steps of one
session, so OpenEnv's stateless HTTP steps mean nothing here, and its tool protocol has no tools.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from socket import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.types import ServerMode, WSErrorCode

from trainers.openenv.environment import SpyEnvironment
from trainers.openenv.models import SpyAction, SpyObservation, SpyState
from trainers.openenv.offer import Offer

ROUTES = ("/ws", "/health", "/metadata", "/schema", "/openapi.json")
GRACE_S = 5.0  # for steps that are being played when the server stops; our choice
ESCAPED = 12  # bytes of a character in JSON at worst: two \uXXXX
BESIDES = 16_384  # bytes of a message beside its texts; our choice

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def application(offer: Offer, max_sessions: int) -> FastAPI:
    """OpenEnv's application for sessions of this environment."""
    app = FastAPI(title="spy_env", docs_url=None, redoc_url=None)
    environments = HTTPEnvServer(
        lambda: SpyEnvironment(offer), SpyAction, SpyObservation, max_sessions, env_name="spy_env", state_cls=SpyState
    )
    environments.register_routes(app, ServerMode.PRODUCTION)
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", None) in ROUTES]
    return app


class Sessions:
    """ASGI around the application: ends sessions that are idle too long, and all of them when the server stops."""

    def __init__(self, app: FastAPI, idle_s: float) -> None:
        """``idle_s``: how long a session may say nothing between two answers."""
        self._app, self._idle = app, idle_s
        self._open: set[_Connection] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One connection. A query could name a session of another connection, so there is none."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        connection = _Connection(receive, send, self._idle)
        self._open.add(connection)
        try:
            await self._app({**scope, "query_string": b""}, connection.receive, connection.send)
        finally:
            self._open.discard(connection)

    async def stop(self) -> None:
        """Tell every session, also one whose step is being played, and end it."""
        for connection in list(self._open):
            await connection.end("the server is stopping; the game of this session is lost", 1001)


class _Connection:
    """A session's two directions. When it is ended, the application learns that the client has gone."""

    def __init__(self, receive: Receive, send: Send, idle_s: float) -> None:
        self._receive, self._send, self._idle = receive, send, idle_s
        self._ended = asyncio.Event()

    async def receive(self) -> Message:
        """The client's next message; one that the application could not read is answered here."""
        while True:
            message = await self._next()
            if message["type"] != "websocket.receive":
                return message
            try:
                return {**message, "text": read_message(message.get("text"))}
            except ValueError as error:
                await self.send(_error(str(error), WSErrorCode.INVALID_JSON))

    async def _next(self) -> Message:
        coming, ended = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait((coming, ended), timeout=self._idle, return_when=asyncio.FIRST_COMPLETED)
            if coming.done() and not self._ended.is_set():
                return coming.result()
        finally:
            coming.cancel()
            ended.cancel()
        await self.end(f"nothing came for {self._idle:g} s, so this session is over; connect anew", 1008)
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(self, message: Message) -> None:
        """What the application says, as long as there is somebody to hear it."""
        if not self._ended.is_set():
            try:
                await self._send(message)
            except OSError:  # the client has hung up, which the application learns when it receives
                self._ended.set()

    async def end(self, why: str, code: int) -> None:
        """Say why, and close. Does nothing where it has ended."""
        if self._ended.is_set():
            return
        self._ended.set()
        with contextlib.suppress(Exception):  # the client may be gone already
            await self._send(_error(why, WSErrorCode.SESSION_ERROR))
            await self._send({"type": "websocket.close", "code": code, "reason": why})


def read_message(text: str | None) -> str:
    """A message as the application can read it: a JSON object, a lone surrogate (which no answer could repeat) as ``?``.

    Raises:
        ValueError: it is something else.
    """
    if text is None:
        raise ValueError("the message is binary; send a JSON object as text")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the message can't be read as JSON ({type(error).__name__}); send a JSON object") from error
    if not isinstance(message, dict):
        raise ValueError(f"the message is a JSON {type(message).__name__}; send an object with a type")
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace").decode()


def _error(why: str, code: WSErrorCode) -> Message:
    return {
        "type": "websocket.send",
        "text": json.dumps({"type": "error", "data": {"message": why, "code": code}}),
    }


class Server(uvicorn.Server):
    """uvicorn, but signals end it with success, and sessions are told first."""

    def __init__(self, config: uvicorn.Config, sessions: Sessions) -> None:
        """Serve ``sessions``."""
        super().__init__(config)
        self._sessions = sessions

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM; uvicorn's own raises them again afterwards, so that the process fails."""
        loop, stop = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in stop:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in stop:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Tell the sessions, then close."""
        await self._sessions.stop()
        await super().shutdown(sockets)


async def serve(offer: Offer, listening: socket, max_sessions: int, idle_s: float, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; ``ready`` is called when connections are accepted."""
    app = application(offer, max_sessions)
    app.router.on_startup.append(ready)
    sessions = Sessions(app, idle_s)
    config = uvicorn.Config(
        sessions,
        log_level="warning",
        lifespan="on",
        ws_max_size=ESCAPED * offer.max_text + BESIDES,
        timeout_graceful_shutdown=int(GRACE_S),
    )
    await Server(config, sessions).serve(sockets=[listening])
