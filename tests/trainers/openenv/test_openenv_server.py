"""A real server process on this machine, and OpenEnv's real client: sessions, limits, bad messages, the end."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("openenv", reason="its client plays")
from openenv.core import GenericEnvClient
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from spy_env import from_json
from spy_env.players import scripted_player
from trainers.openenv.server import read_message

pytestmark = pytest.mark.openenv
ROOT = Path(__file__).parents[3]
COMMAND = "import sys; from trainers.openenv.command import main; sys.exit(main(sys.argv[1:]))"
FRAME_BESIDES = 16_384


@contextlib.contextmanager
def server(*flags):
    """A server on a free port; its address and process. Whatever happens, it is ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "--port", "0", *flags],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in process.stdout], daemon=True).start()
    try:
        first = lines.get(timeout=60)
        assert first.startswith("serving on "), first
        yield first.split()[-1], process, lines
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def url():
    with server("--max_sessions", "8", "--max_text", "3000", "--task", "summarization", "creative_writing") as served:
        yield served[0]


@contextlib.contextmanager
def line(url):
    """The bare protocol: send text, get the answer as a dict."""
    with connect(url.replace("http", "ws") + "/ws", max_size=None) as socket_:
        yield socket_


def asked(socket_, message):
    socket_.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return json.loads(socket_.recv(timeout=10))


def play(url, seed, **options):
    with GenericEnvClient(url).sync() as seat:
        seat.reset(seed=seed, opponents="random", **options)
        seat.step({"text": f"Summary: number {seed}"})
        result = seat.step({"text": r"\boxed{2}"})
        assert result.done
        return result


def test_a_session_plays_to_the_end_and_gets_its_rewards_and_the_record(url):
    with GenericEnvClient(url).sync() as seat:
        result = seat.reset(seed=3, seat="player_2", rules={"players": 4}, task="creative_writing", episode_id="mine")
        assert "Who is the spy" in result.observation["prompt"]
        assert (result.done, result.observation["stage"], result.observation["role"]) == (False, "performing", None)
        result = seat.step({"text": "Story: once."})
        assert (result.done, result.observation["stage"], result.observation["record"]) == (False, "detection", None)
        assert seat.state() == {
            "episode_id": "mine",
            "step_count": 1,
            "task": "creative_writing",
            "seat": "player_2",
            "stage": "detection",
            "players": 4,
        }
        result = seat.step({"text": r"\boxed{1}"})
        end = result.observation
        game = from_json(end["record"])
        assert (end["vote"], end["role"], result.done) == ("player_1", game.role("player_2"), True)
        assert result.reward == pytest.approx(end["performing_reward"] + end["detection_reward"])
        assert game.replies["performing"]["player_2"].text == "Story: once."


def test_a_seed_gives_the_same_game_whatever_else_is_played(url):
    alone = [play(url, seed).observation["record"] for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        for records in [list(pool.map(lambda seed: play(url, seed).observation["record"], range(6))) for _ in range(3)]:
            assert records == alone
    assert len(set(alone)) == 6


def test_sessions_without_a_seed_differ_and_see_only_their_own_game(url):
    with GenericEnvClient(url).sync() as one, GenericEnvClient(url).sync() as other:
        first, second = one.reset(), other.reset(seat="player_3")
        one.step({"text": "Summary: mine"})
        assert other.state()["step_count"] == 0
        assert (first.observation["seat"], second.observation["seat"]) == ("player_1", "player_3")
        records = {play(url, None).observation["record"] for _ in range(3)}
        assert len(records) == 3


BAD = [
    ("{", "can't be read as JSON"),
    ("[" * 5000, "can't be read as JSON"),
    ("[]", "is a JSON list"),
    ('"reset"', "is a JSON str"),
    (b"\xff\x00", "can't be read as JSON"),
    ("9" * 5000, "can't be read as JSON"),
    ({"type": "dance"}, "Unknown message type"),
    ({}, "Unknown message type"),
    ({"type": "step"}, "Invalid message"),
    ({"type": "step", "data": {}}, "Invalid message"),
    ({"type": "step", "data": {"text": "x", "more": "\ud800"}}, "Invalid message"),
    ({"type": "step", "data": {"text": 5}}, "Invalid message"),
    ({"type": "step", "data": {"text": "x" * 3001}}, "3001 characters; give at most 3000"),
    ({"type": "reset", "data": {"seed": "one"}}, "Invalid message"),
    ({"type": "reset", "data": {"seed": -1}}, "Invalid message"),
    ({"type": "reset", "data": {"episode_id": "x" * 256}}, "Invalid message"),
    ({"type": "reset", "data": {"self": 1}}, "multiple values"),
    ({"type": "reset", "data": {"document": "y" * 3001}}, "at most 3000"),
    ({"type": "reset", "data": {"task": "os:system"}}, "no task 'os:system' here"),
    ({"type": "mcp", "data": {}}, None),
]


def test_bad_messages_are_answered_and_the_game_goes_on(url):
    with line(url) as session:
        asked(session, {"type": "reset", "data": {"seed": 1}})
        for message, error in BAD:
            answer = asked(session, message)
            assert error is None or (answer["type"] == "error" and error in answer["data"]["message"]), answer
        assert asked(session, {"type": "step", "data": {"text": "Summary: \ud800 x"}})["data"]["done"] is False
        assert asked(session, {"type": "step", "data": {"text": "\\boxed{1}"}})["data"]["done"] is True
        assert "over; reset deals" in asked(session, {"type": "step", "data": {"text": "x"}})["data"]["message"]


def test_a_step_before_any_reset_says_what_to_do(url):
    with line(url) as session:
        assert "reset deals one" in asked(session, {"type": "step", "data": {"text": "x"}})["data"]["message"]


def test_a_frame_beyond_all_limits_ends_its_session_alone(url):
    with line(url) as other:
        asked(other, {"type": "reset", "data": {"seed": 1}})
        with line(url) as session:
            with contextlib.suppress(ConnectionClosed):  # it may be closed while it is still sent
                session.send("x" * (12 * 3000 + FRAME_BESIDES + 1))
            with pytest.raises(ConnectionClosed, match="1009"):
                session.recv(timeout=10)
        assert asked(other, {"type": "step", "data": {"text": "x"}})["data"]["done"] is False


def test_the_worst_text_of_allowed_length_fits_a_frame(url):
    with line(url) as session:
        asked(session, {"type": "reset", "data": {"seed": 1}})
        assert asked(session, {"type": "step", "data": {"text": "\U0001f600" * 3000}})["type"] == "observation"


def test_a_session_too_many_is_refused_and_a_place_that_is_left_is_free_again(url):
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            asked(stack.enter_context(line(url)), {"type": "state"})
        with (
            GenericEnvClient(url).sync() as late,
            pytest.raises(RuntimeError, match=r"8/8 sessions active.*CAPACITY_REACHED"),
        ):
            late.reset()
    wait_for_a_place(url)


def wait_for_a_place(url):
    """Play a game as soon as there is a place."""
    deadline = time.monotonic() + 10
    while True:
        try:
            assert play(url, 1).done
            return
        except RuntimeError:
            assert time.monotonic() < deadline


@pytest.mark.parametrize("path", ["/reset", "/step", "/mcp", "/spy_env/tasks", "/docs"])
def test_what_means_nothing_here_is_not_routed(url, path):
    request = urllib.request.Request(url + path, data=b"{}" if path != "/docs" else None)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(request, timeout=10)


def test_health_and_schema_are_served(url):
    assert json.load(urllib.request.urlopen(url + "/health", timeout=10))["status"] == "healthy"
    assert json.load(urllib.request.urlopen(url + "/metadata", timeout=10))["name"] == "spy_env"
    schema = json.load(urllib.request.urlopen(url + "/schema", timeout=10))
    assert schema["action"]["properties"]["text"]["type"] == "string"
    assert {"prompt", "record"} <= set(schema["observation"]["properties"])


def test_the_example_of_the_readme_plays(url):
    page = (ROOT / "trainers/openenv/README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names = {}
    exec(example, names)
    reward, end = names["play"](url, scripted_player())
    assert end["seat"] == "player_2"
    assert reward == pytest.approx(end["performing_reward"] + end["detection_reward"])


def test_a_session_that_says_nothing_is_ended_and_its_place_is_free():
    with server("--session_timeout", "1", "--max_sessions", "1") as (url, _, _), line(url) as session:
        start = time.monotonic()
        asked(session, {"type": "reset"})
        assert "nothing came for 1 s" in json.loads(session.recv(timeout=10))["data"]["message"]
        assert 0.9 < time.monotonic() - start < 5
        with pytest.raises(ConnectionClosed, match="1008"):
            session.recv(timeout=10)
        assert play(url, 1).done


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_tells_the_sessions_and_ends_with_success(number):
    with server() as (url, process, lines), line(url) as session, line(url) as other:
        asked(session, {"type": "reset", "data": {"seed": 1}})
        asked(other, {"type": "state"})
        process.send_signal(number)
        for client in (session, other):
            assert "the server is stopping" in json.loads(client.recv(timeout=10))["data"]["message"]
            with pytest.raises(ConnectionClosed, match="1001"):
                client.recv(timeout=10)
        assert process.wait(15) == 0
        assert lines.get(timeout=5) == "stopped\n"


def test_clients_that_hang_up_while_their_game_is_played_leave_no_traceback_and_no_place_taken():
    with server("--max_sessions", "2") as (url, process, lines):
        for _ in range(4):
            with contextlib.suppress(ConnectionClosed), line(url) as session:
                session.send(json.dumps({"type": "reset", "data": {"rules": {"players": 100}}}))
                session.socket.shutdown(socket.SHUT_RDWR)
            wait_for_a_place(url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
        assert lines.get(timeout=5) == "stopped\n"


def test_a_session_whose_step_is_in_flight_is_told_and_does_not_hold_the_server_up():
    from tests.chat_server import Endpoint, says

    endpoint = Endpoint(lambda prompt, times: says("Summary: slow", after=60))
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    opponent = f"endpoint:{endpoint.url}#m"
    with server("--opponent", opponent, "scripted") as (url, process, _), line(url) as session:
        asked(session, {"type": "reset", "data": {"seed": 1}})
        session.send(json.dumps({"type": "step", "data": {"text": "Summary: x"}}))
        time.sleep(0.5)
        with line(url) as other:  # the others go on meanwhile
            asked(other, {"type": "reset", "data": {"seed": 1, "opponents": "scripted"}})
            assert asked(other, {"type": "step", "data": {"text": "x"}})["type"] == "observation"
        process.send_signal(signal.SIGTERM)
        assert "the server is stopping" in json.loads(session.recv(timeout=10))["data"]["message"]
        assert process.wait(15) == 0
    endpoint.closing.set()
    endpoint.shutdown()


def test_a_client_that_reads_nothing_does_not_hold_the_server_up():
    with server() as (url, process, _):
        session = socket.create_connection(url.removeprefix("http://").split(":"))
        session.sendall(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        message = json.dumps({"type": "x" * 1_000_000}).encode()  # the answer repeats it
        frame = b"\x81\xff" + len(message).to_bytes(8, "big") + bytes(4) + message
        session.settimeout(2)
        with pytest.raises(TimeoutError):  # by then neither side reads
            session.sendall(frame * 40)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_port_that_is_taken_is_an_error_of_the_system():
    from trainers.openenv.command import main

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        main(["--port", str(taken.getsockname()[1])])


def test_a_message_keeps_all_but_its_lone_surrogates():
    assert json.loads(read_message('{"a": "\\ud83d\\ude00 \\ud800"}')) == {"a": "\U0001f600 ?"}
