"""An endpoint behind a seat: a real server in this process that speaks the chat protocol, well and badly."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest

from spy_env import Document, Rules, Stage, deal, read_games
from spy_env.records import to_json
from tests.chat_server import Answer, Endpoint, says
from trainers import play
from trainers.engines import Failed, Request, Sampling
from trainers.engines.endpoint import EndpointEngine
from trainers.rollout import RETRIES, GamesFailedError, SeatPolicies, rollout

pytest.importorskip("openai", reason="endpoints are asked through OpenAI's client")

RULES = Rules(players=3, mask_fraction=0.2)
SAMPLING = {Stage.PERFORMING: Sampling(20), Stage.DETECTION: Sampling(20)}
REFUSED = Answer(b"{}", 400)  # which OpenAI's client doesn't ask again
AT_ONCE = {"retry-after-ms": "1"}  # tells OpenAI's client not to pause before it asks again
FINE = says(r"A bridge. \boxed{1}")


def engine_of(server: Endpoint, timeout: float = 5.0, retries: int = 1, concurrency: int = 16) -> EndpointEngine:
    return EndpointEngine(server.url, "a-model", timeout=timeout, retries=retries, concurrency=concurrency)


def requests(*prompts: str) -> list[Request]:
    return [Request(prompt, f"seed/{prompt}", Sampling(20, 0.7)) for prompt in prompts]


def games(*texts: str):
    return [
        deal(Document(f"d{i}", text), "summarization", RULES, f"endpoint/{i}", Stage.DETECTION)
        for i, text in enumerate(texts)
    ]


TEXTS = ("A bridge over the river was closed.", "A cursed tower by the sea fell down.", "Nine ships left the harbour.")


def test_answers_come_back_in_order_although_many_are_asked_for_at_once(serve):
    server = serve(lambda prompt, _: says(f"echo {prompt}", after=0.15 - 0.01 * int(prompt)))
    replies = engine_of(server, concurrency=4).generate(requests(*map(str, range(12))))
    assert [reply.text for reply in replies] == [f"echo {i}" for i in range(12)]
    assert server.most_at_work == 4


def test_a_request_says_model_prompt_and_sampling_and_nothing_that_bends_the_distribution(serve):
    server = serve(lambda *_: FINE)
    engine_of(server).generate(requests("hello"))
    assert server.received == [
        {
            "path": "/v1/chat/completions",
            "model": "a-model",
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": 20,
            "temperature": 0.7,
        }
    ]


def test_no_requests_need_no_server(serve):
    assert EndpointEngine("http://127.0.0.1:9/v1", "m").generate([]) == []


def test_an_empty_key_is_no_key(serve):
    server = serve(lambda *_: FINE)
    assert not isinstance(EndpointEngine(server.url, "m", api_key="").generate(requests("hello"))[0], Failed)


def test_a_prefill_is_left_out_and_none_is_recorded(serve):
    server = serve(lambda *_: FINE)
    sampling = {stage: Sampling(20, prefill=r"\boxed{", stop="}") for stage in SAMPLING}
    (played,) = rollout(games(TEXTS[0]), SeatPolicies(engine_of(server), sampling))
    assert all([message["role"] for message in sent["messages"]] == ["user"] for sent in server.received)
    assert {reply.prefix for stage in SAMPLING for reply in played.game.replies[stage].values()} == {""}
    assert set(played.game.votes().values()) == {"player_1"}


@pytest.mark.parametrize(("finish_reason", "truncated"), [("length", True), ("stop", False)])
def test_an_answer_that_ran_out_of_tokens_is_truncated(serve, finish_reason, truncated):
    (reply,) = engine_of(serve(lambda *_: says("so far", finish_reason))).generate(requests("hello"))
    assert (reply.text, reply.truncated) == ("so far", truncated)


def test_an_answer_that_gives_no_finish_reason_is_taken_as_whole(serve):
    server = serve(lambda *_: Answer(b'{"choices": [{"message": {"content": "hi"}}]}'))
    assert engine_of(server).generate(requests("hello"))[0].truncated is False


ASKED_AGAIN = {
    "a server that answers too late": Answer(FINE.body, after=5.0),
    "a cut connection": Answer(FINE.body, cut=True),
    "too many requests": Answer(b"{}", 429, AT_ONCE),
    "a server error": Answer(b"{}", 500, AT_ONCE),
    "a gateway without its server": Answer(b"<html>", 502, AT_ONCE),
}


@pytest.mark.parametrize("trouble", ASKED_AGAIN)
def test_passing_trouble_is_asked_again_a_bounded_number_of_times(serve, trouble):
    server = serve(lambda prompt, times: ASKED_AGAIN[trouble] if prompt == "always" or times == 0 else FINE)
    passing, lasting = engine_of(server, timeout=0.5).generate(requests("once", "always"))
    assert not isinstance(passing, Failed)
    assert isinstance(lasting, Failed)
    assert server.url in lasting.reason
    assert server.prompts == {"once": 2, "always": 2}


def test_an_answer_that_comes_a_byte_at_a_time_meets_the_deadline_too(serve):
    server = serve(lambda *_: Answer(b" " * 1000 + FINE.body, drip=True))
    started = time.monotonic()
    (result,) = engine_of(server, timeout=0.3).generate(requests("hello"))
    assert isinstance(result, Failed)
    assert server.url in result.reason
    assert time.monotonic() - started < 10


NONSENSE = {
    "no JSON": b'{"choices": [',
    "no body": b"",
    "not UTF-8": b'{"choices": [{"message": {"content": "\xff"}}]}',
    "JSON too deep to read": b"[" * 100_000,
    "a number": b"5",
    "nothing": b"null",
    "an empty list": b"[]",
    "an error in good JSON": b'{"error": {"message": "no such model"}}',
    "no choices": b'{"id": "1"}',
    "empty choices": b'{"choices": []}',
    "choices that are no list": b'{"choices": {"message": {"content": "hi"}}}',
    "a number of choices": b'{"choices": 1}',
    "a choice that is null": b'{"choices": [null]}',
    "a message without content": b'{"choices": [{"message": {}}]}',
    "null content": says(None).body,
    "content in parts": b'{"choices": [{"message": {"content": [{"text": "hi"}]}}]}',
}


def test_nonsense_fails_alone_and_is_not_asked_again(serve):
    server = serve(lambda prompt, _: Answer(NONSENSE[prompt]) if prompt in NONSENSE else FINE)
    *bad, good = engine_of(server).generate(requests(*NONSENSE, "good"))
    assert not isinstance(good, Failed)
    for prompt, result in zip(NONSENSE, bad, strict=True):
        assert isinstance(result, Failed), prompt
        assert server.url in result.reason
    assert set(server.prompts.values()) == {1}


def test_a_reply_that_was_cut_before_its_text_began_is_empty_and_truncated(serve):
    (reply,) = engine_of(serve(lambda *_: says(None, finish_reason="length"))).generate(requests("hello"))
    assert (reply.text, reply.truncated) == ("", True)


@pytest.mark.parametrize("url", ["nonsense", "http://127.0.0.1:9/v1", "http://127.0.0.1:99999/v1", "http://[bad"])
def test_an_address_where_nobody_answers_fails(url):
    (result,) = EndpointEngine(url, "m", retries=0).generate(requests("hello"))
    assert isinstance(result, Failed)
    assert url in result.reason


def test_a_game_is_played_again_from_the_same_deal_as_if_nothing_had_been(serve):
    def fails_the_spies(prompt: str, times: int) -> Answer:
        return REFUSED if times < RETRIES and "you are the spy" in prompt else FINE

    stumbling = serve(fails_the_spies)
    steady = serve(lambda *_: FINE)
    after_trouble, undisturbed = (
        [to_json(played.game) for played in rollout(games(*TEXTS), SeatPolicies(engine_of(server), SAMPLING))]
        for server in (stumbling, steady)
    )
    assert after_trouble == undisturbed
    assert Counter(stumbling.prompts.values())[1 + RETRIES] == len(TEXTS)


def test_a_game_that_keeps_failing_is_named_after_two_more_tries(serve):
    server = serve(lambda prompt, _: REFUSED if "cursed" in prompt else FINE)
    with pytest.raises(
        GamesFailedError, match=rf"game endpoint/1: player_\d in stage performing: {server.url}"
    ) as error:
        rollout(games(*TEXTS), SeatPolicies(engine_of(server), SAMPLING))
    assert [game.seed for game, _ in error.value.failures] == ["endpoint/1"]
    asked = Counter("cursed" in sent["messages"][0]["content"] for sent in server.received)
    assert asked == {True: 3 * (1 + RETRIES), False: 2 * 6}


def test_with_on_failure_the_others_go_on_and_nothing_of_the_failed_game_comes_back(serve):
    def only_performs(prompt: str, _: int) -> Answer:
        return REFUSED if "cursed" in prompt and "The results:" in prompt else FINE

    told = []
    seating = SeatPolicies(engine_of(serve(only_performs)), SAMPLING)
    played = rollout(games(*TEXTS), seating, on_failure=lambda game, reason: told.append((game, reason)))
    assert [one.game.seed for one in played] == ["endpoint/0", "endpoint/2"]
    ((game, reason),) = told
    assert game == games(*TEXTS)[1]
    assert "in stage detection" in reason


def test_the_command_counts_failed_games_keeps_the_others_and_exits_with_1(serve, tmp_path, capsys):
    server = serve(lambda prompt, _: REFUSED if "cursed" in prompt else FINE)
    documents, output = tmp_path / "documents.jsonl", tmp_path / "games.jsonl"
    documents.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    flags = f"--players 3 --games 3 --documents {documents} --output {output} --player endpoint:{server.url}#a-model"
    assert play.main(flags.split()) == 1
    assert [game.seed for game in read_games(output)] == ["0/0", "0/2"]
    shown = capsys.readouterr().out
    assert "game 0/1 could not be played" in shown
    assert "1 could not be played and are not in it" in shown
