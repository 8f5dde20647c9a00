"""Settings of all tests, before any of them imports torch; and a chat endpoint for those that need one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.chat_server import Answer, Endpoint

# Threads gain nothing on models this small, and on a busy machine they wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # for processes that use more threads: waiting ones don't spin


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Endpoint]]:
    """Starts chat endpoints that answer by a function, see ``chat_server``."""
    pytest.importorskip("openai", reason="endpoints are asked through OpenAI's client")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    servers: list[Endpoint] = []

    def start(answer: Callable[[str, int], Answer]) -> Endpoint:
        servers.append(Endpoint(answer))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.closing.set()
        server.shutdown()
        server.server_close()
