"""When an endpoint counts as down, and what becomes of the answers that are under way."""

import signal
import threading

import pytest

from benchmarks.evaluation.generations import FAILURES_IN_A_ROW, UnreachableError, as_answered
from tests.chat_server import Answer, says
from trainers.engines import Failed, Request, Sampling
from trainers.engines.endpoint import EndpointEngine

REFUSED = Answer(b'{"error": "too long"}', 400)
DEAD = Answer(b"{}", 401)  # which isn't asked again


def answers(server, prompts, concurrency=4):
    engine = EndpointEngine(server.url, "m", timeout=5, retries=0, concurrency=concurrency)
    requests = [Request(prompt, prompt, Sampling(5)) for prompt in prompts]
    seen = {}
    error = None
    try:
        for i, reply in as_answered(engine, iter(requests), "the judge", len(requests)):
            seen[prompts[i]] = reply
    except UnreachableError as raised:
        error = raised
    return seen, error


def test_prompts_that_are_refused_one_by_one_do_not_make_an_endpoint_unreachable(serve):
    server = serve(lambda prompt, _: REFUSED if prompt.startswith("long") else says("yes"))
    seen, error = answers(server, ["short", *(f"long {i}" for i in range(FAILURES_IN_A_ROW + 5))], concurrency=1)
    assert error is None
    assert sum(isinstance(reply, Failed) and reply.refused for reply in seen.values()) == FAILURES_IN_A_ROW + 5


def test_an_endpoint_that_refuses_everything_is_not_asked_for_ever(serve):
    server = serve(lambda *_: REFUSED)
    _, error = answers(server, [str(i) for i in range(100)])
    assert "too long" in str(error)
    assert len(server.received) < FAILURES_IN_A_ROW + 4


def test_one_refused_prompt_alone_is_that_prompt_s_failure(serve):
    seen, error = answers(serve(lambda *_: REFUSED), ["long"])
    assert error is None
    assert seen["long"].refused


def test_answers_under_way_when_an_endpoint_dies_are_kept(serve):
    slow = says("yes")._replace(after=0.5)
    server = serve(lambda prompt, _: slow if prompt == "0" else DEAD)
    seen, error = answers(server, [str(i) for i in range(60)])
    assert error is not None
    assert seen["0"].text == "yes"
    assert len(server.received) < FAILURES_IN_A_ROW + 4


def test_answers_under_way_when_the_user_stops_are_kept_and_nothing_more_is_asked(serve):
    server = serve(lambda *_: says("yes")._replace(after=0.5))
    engine = EndpointEngine(server.url, "m", timeout=5, retries=0, concurrency=4)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    stop = threading.Timer(0.25, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    seen = []
    try:
        stop.start()
        with pytest.raises(KeyboardInterrupt):
            seen.extend(engine.as_answered(Request(str(i), str(i), Sampling(5)) for i in range(40)))
    finally:
        stop.join()
        signal.signal(signal.SIGINT, before)
    assert len(server.received) == 4
    assert sorted(place for place, _ in seen) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [1, 3])
def test_few_requests_that_all_fail_are_an_endpoint_that_is_down(serve, count):
    _, error = answers(serve(lambda *_: DEAD), [str(i) for i in range(count)])
    assert "run the same command again" in str(error)
