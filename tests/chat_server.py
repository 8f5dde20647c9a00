"""A server that speaks OpenAI's chat protocol on 127.0.0.1, well or badly, as a test wants."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    """What the server does with a request."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    after: float = 0.0  # seconds
    cut: bool = False  # close the connection in the middle of the body
    drip: bool = False  # send one byte at a time


def says(text: str | None, finish_reason: str = "stop", after: float = 0.0) -> Answer:
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text}}
    row = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return Answer(json.dumps(row).encode(), after=after)


class Endpoint(ThreadingHTTPServer):
    """Answers by a function of the prompt and of how often it was asked before; keeps what it was sent."""

    daemon_threads = True
    request_queue_size = 128  # several games ask at once; more than the default of 5 would be refused on a busy machine

    def __init__(self, answer: Callable[[str, int], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.lock, self.closing = answer, threading.Lock(), threading.Event()
        self.received: list[dict] = []
        self.prompts: Counter[str] = Counter()
        self.at_work = self.most_at_work = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are part of these tests."""


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = request["messages"][-1]["content"]
        with self.server.lock:
            self.server.received.append({"path": self.path, **request})
            answer = self.server.answer(prompt, self.server.prompts[prompt])
            self.server.prompts[prompt] += 1
            self.server.at_work += 1
            self.server.most_at_work = max(self.server.most_at_work, self.server.at_work)
        self.server.closing.wait(answer.after)
        with self.server.lock:
            self.server.at_work -= 1
        self.send_response(answer.status)
        for name, value in {"content-type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        if answer.drip:
            self._drip(answer.body)
        else:
            self.wfile.write(answer.body[: len(answer.body) // 2] if answer.cut else answer.body)
        self.close_connection = True

    def _drip(self, body: bytes) -> None:
        for byte in body:
            self.wfile.write(bytes([byte]))
            self.server.closing.wait(0.05)

    def log_message(self, *_: object) -> None:
        """Silent."""
