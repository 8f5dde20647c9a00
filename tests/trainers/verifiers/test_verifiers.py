"""verifiers' own loader, runner and command line, with an endpoint on this machine for a model."""

# ruff: noqa: E402 - the imports below need what importorskip asks for
from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

vf = pytest.importorskip("verifiers.v1", reason="its environments run")
from spy_env import PRESETS, Stage, from_json, load_task, read_documents, write_games
from spy_env.observations import read_results
from spy_env.players import scripted_player
from tests.chat_server import Answer, Endpoint, says

pytestmark = pytest.mark.verifiers
ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "trainers/verifiers/plugin"


@pytest.fixture(autouse=True)
def _findable(monkeypatch):
    """As it is where spy-env is installed: the plugin stands at the top."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("A_KEY", "none")


@pytest.fixture
def endpoint():
    """Plays like the scripted player, but votes for player 2."""
    player = scripted_player(12)
    server = Endpoint(
        lambda prompt, times: says(r"\boxed{2}" if read_results(prompt) else f"Summary: {player(prompt)}")
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.closing.set()
    server.shutdown()


def environment(**flags):
    """By verifiers' own loaders, from what its command line and files hold."""
    return vf.load_environment(vf.resolve_env_config({"taskset": {"id": "who-is-the-spy"}, "players": 4} | flags))


def episodes(env, endpoint, count=1, tasks=1):
    client = vf.EvalClientConfig(base_url=endpoint.url, api_key_var="A_KEY")
    context = vf.ModelContext(model="m", client=client)

    async def play():
        async with env.serving():
            slots = [slot for task in env.taskset.take(tasks) for slot in env.slots(task, count)]
            return await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))

    return asyncio.run(play())


def game_of(episode):
    (record,) = [trace.info["game"] for trace in episode.traces if "game" in trace.info]
    return from_json(record)


@pytest.mark.parametrize("voters", ["all", "civilians", "referees"])
def test_every_reply_is_a_trace_that_is_paid_what_the_game_pays_its_seat(endpoint, voters):
    env = environment(voters=voters, referees=3)
    (episode,) = episodes(env, endpoint)
    assert episode.ok, episode.errors
    game = game_of(episode)
    assert game.stage is Stage.OVER
    earned = game.rewards(PRESETS["spyrl"])
    by_seat = {(trace.info["stage"], trace.info["seat"]): trace for trace in episode.traces}
    assert set(by_seat) == {("performing", seat) for seat in game.players} | {
        ("detection", seat) for seat in game.voters
    }
    for (stage, seat), trace in by_seat.items():
        paid = earned.performing if stage == "performing" else earned.detection
        assert {name: reward.value for name, reward in trace.rewards.items()} == {stage: paid[seat]}
        assert trace.agent.name == game.role(seat)
        assert trace.agent.trainable == (stage == "performing" or seat != game.spy)
        assert trace.last_reply == game.replies[stage][seat].text
    assert len(endpoint.received) == len(by_seat)


@pytest.mark.parametrize("train", ["performing", "detection"])
def test_one_stage_alone_can_be_trained(endpoint, train):
    (episode,) = episodes(environment(train=train), endpoint)
    game = game_of(episode)
    trained = {(trace.info["stage"], trace.info["seat"]) for trace in episode.traces if trace.agent.trainable}
    seats = game.players if train == "performing" else game.trained_voters
    assert trained == {(train, seat) for seat in seats}


def test_rollouts_of_a_task_are_the_same_deal_and_tasks_differ(endpoint):
    games = [game_of(episode) for episode in episodes(environment(), endpoint, count=2, tasks=3)]
    deals = [(game.document, game.spy, game.hidden) for game in games]
    assert deals[0::2] == deals[1::2]
    assert len({game.document.id for game in games}) == 3
    again = [game_of(episode) for episode in episodes(environment(), endpoint, tasks=3)]
    assert [game.spy for game in again] == [game.spy for game in games[::2]]
    assert [game.spy for game in again] != [
        game_of(episode).spy
        for episode in episodes(environment(taskset={"id": "who-is-the-spy", "seed": 3}), endpoint, tasks=3)
    ]


def test_a_seat_that_gets_no_reply_fails_the_episode_and_nothing_is_paid():
    def answer(prompt, times):
        return Answer(b"", status=503) if read_results(prompt) else says("Summary: x")

    server = Endpoint(answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (episode,) = episodes(environment(), server)
    server.closing.set()
    server.shutdown()
    assert not episode.ok
    assert re.search(r"player_\d in stage detection: ProviderError 503", episode.last_error.message)
    assert not any(trace.rewards for trace in episode.traces)


def test_roles_may_have_models_of_their_own(endpoint):
    (episode,) = episodes(environment(spy={"model": "other"}), endpoint)
    game = game_of(episode)
    asked = [(request["model"], request) for request in endpoint.received]
    assert sorted(model for model, _ in asked) == ["m"] * 6 + ["other"] * 2
    assert {trace.agent.name for trace in episode.traces if trace.agent.config.model == "other"} == {
        game.role(game.spy)
    }


def test_documents_of_ones_own_are_the_tasks(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps({"id": f"d{i}", "text": f"word{i} " * 9}) + "\n" for i in range(3)))
    env = environment(taskset={"id": "who-is-the-spy", "documents": str(file), "max_documents": 2})
    tasks = list(env.taskset)
    assert [task.data.id for task in tasks] == ["d0", "d1"]
    assert len({task.key for task in tasks}) == 2
    assert len(list(read_documents(file))) == 3


def test_a_document_may_be_longer_than_the_tasks_own_length(endpoint, tmp_path):
    words = load_task("summarization").document_words + 50
    file = tmp_path / "long.jsonl"
    file.write_text(json.dumps({"id": "long", "text": "A sentence of words. " * words}) + "\n")
    env = environment(taskset={"id": "who-is-the-spy", "documents": str(file)}, document_words=words)
    (episode,) = episodes(env, endpoint)
    assert len(game_of(episode).document.text.split()) == words
    assert {trace.task.data.document for trace in episode.traces} == {""}


@pytest.mark.parametrize(
    ("flags", "message"),
    [({"players": 2}, "at least 3"), ({"rewards": "gold"}, "choose one of"), ({"voters": "spies"}, "voters")],
)
def test_wrong_rules_are_refused_before_any_rollout(flags, message):
    with pytest.raises(ValueError, match=message):
        environment(**flags)


def test_the_command_line_evaluates_and_its_games_replay(endpoint, tmp_path):
    command = [
        *(str(Path(sys.executable).with_name("vf-eval")), "who-is-the-spy", "-n", "2", "-r", "1", "-m", "m"),
        *("--client.base-url", endpoint.url, "--client.api-key-var", "A_KEY", "--env.players", "4"),
        *("--output-dir", str(tmp_path), "--rich", "None"),
    ]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{PLUGIN}"}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    (file,) = tmp_path.rglob("traces.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    games = [from_json(trace["info"]["game"]) for row in rows for trace in row["traces"] if "game" in trace["info"]]
    assert len(games) == 2
    write_games(tmp_path / "games.jsonl", games)
    assert all(game.stage is Stage.OVER for game in games)
