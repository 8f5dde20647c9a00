"""On a real cluster with OpenRLHF's engines: nothing hangs, nothing is scored that did not happen, the count closes.

Run with ``-m openrlhf``; the engines are vLLM's on a random model, and only their ``generate`` is made to misbehave.
"""
# ruff: noqa: E402 - the imports below need what importorskip asks for, and the bridge

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("openrlhf", reason="its engines play")

from tests.trainers.openrlhf import openrlhf_without_gpu

openrlhf_without_gpu.install()

import ray

from spy_env import Stage, read_games
from tests.trainers import tiny_world
from tests.trainers.engines.called_engines import prompt_rows
from tests.trainers.openrlhf import openrlhf_cluster
from tests.trainers.openrlhf.openrlhf_cluster import coordinator, coordinators, dispatched, settings
from tests.trainers.openrlhf.troubled_agent import ASKED, TROUBLE
from trainers.cluster.coordinator_actor import NAMESPACE
from trainers.cluster.prompt_rows import EVAL
from trainers.disk import read_log
from trainers.rollout import GamesFailedError

pytestmark = pytest.mark.openrlhf

SOON = 60  # seconds; most take one, on a busy machine ten
DEADLINE = 240  # of a whole test, engines started by the first not counted
ALWAYS = [0, 10**6]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return openrlhf_cluster.model_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def address():
    with openrlhf_cluster.cluster() as address:
        yield address


@pytest.fixture(scope="module")
def engines(address, model):
    """Two of them. The last tests of this file kill them."""
    return openrlhf_cluster.engines(2, model)


@pytest.fixture(autouse=True)
def _deadline(engines):
    def over(*_):
        raise TimeoutError(f"the test isn't over after {DEADLINE} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(DEADLINE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    if coordinator() in coordinators():  # to the next test the job is as new
        ray.kill(ray.get_actor(coordinator(), namespace=NAMESPACE))


def trouble(run, **by_row):
    """What happens to which requests of a row."""
    file = Path(run.folder) / TROUBLE
    file.with_suffix(".new").write_text(json.dumps(by_row))
    file.with_suffix(".new").replace(file)  # engines read it at any time


def asked(run):
    """How many requests each row has made so far."""
    return Counter(line["row"] for line in read_log(Path(run.folder) / ASKED))


def games(run, step=1, kind="step"):
    file = Path(run.folder) / "games" / f"{kind}_{step:06d}.jsonl"
    return list(read_games(file)) if file.exists() else []


def closed(run):
    return [line["step"] for line in read_log(Path(run.folder) / "metrics.jsonl")]


def answers(*refs):
    return ray.get(list(refs), timeout=SOON)


def failure(ref):
    """What a row's calls are told."""
    with pytest.raises(ray.exceptions.RayError) as told:
        ray.get(ref, timeout=SOON)
    return told.value


def assert_played(run, rows, step=1):
    """The iteration holds the games of exactly these rows, each once, and they are over."""
    per_row = run.samples // run.rules.players
    expected = sorted(f"{run.seed}/{step}/{row.seed}/{i}" for row in rows for i in range(per_row))
    assert sorted(game.seed for game in games(run, step)) == expected
    assert all(game.stage is Stage.OVER for game in games(run, step))
    assert closed(run) == [*range(1, step + 1)]


def assert_returned(run, results):
    """The votes in the records are the samples that the trainer got, row by row."""
    recorded = Counter(
        (game.seed.split("/")[2], reply.text) for game in games(run) for reply in game.replies[Stage.DETECTION].values()
    )
    returned = Counter((json.loads(sample["prompt"])["seed"], said(sample)) for row in results for sample in row)
    assert recorded == returned


def said(sample):
    """The text of a sample's reply, found by where its log-probabilities begin."""
    begin = next(i for i, logprob in enumerate(sample["rollout_log_probs"]) if logprob)
    return tiny_world.tokenizer().decode(sample["observation_tokens"][begin:], skip_special_tokens=True)


def until(happened):
    """Wait for something that another process does."""
    ends = time.monotonic() + SOON
    while not happened():
        assert time.monotonic() < ends, "it never happened"
        time.sleep(0.1)


def test_rows_with_the_same_document_play_their_own_games_on_one_engine_and_on_two(engines, tmp_path):
    run = settings(tmp_path, batch_size=4)
    first, *others = prompt_rows(run, 4)
    rows = [first, *(replace(row, document=first.document) for row in others)]
    in_turns = [dispatched(engines[0], row, calls=1) for _ in range(run.samples) for row in rows[:2]]
    results = answers(*in_turns, *(dispatched(engine, row) for engine, row in zip(engines, rows[2:], strict=True)))
    assert_played(run, rows)
    assert_returned(run, results)


def test_a_row_that_comes_twice_is_refused_once_and_counted_once(engines, tmp_path):
    run = settings(tmp_path)
    first, second = prompt_rows(run, 2)
    played, refused = dispatched(engines[0], first), dispatched(engines[0], first)
    assert "row '0' came twice in iteration 1" in str(failure(refused))
    answers(played)
    assert closed(run) == []
    answers(dispatched(engines[1], second))
    assert_played(run, [first, second])


def test_forty_games_at_once_are_one_iteration(engines, tmp_path):
    run = settings(tmp_path, batch_size=10, samples=16)
    rows = prompt_rows(run, 10)
    results = answers(*(dispatched(engines[i % 2], row) for i, row in enumerate(rows)))
    assert [len(row) for row in results] == [16] * 10
    assert len(games(run)) == 40
    assert_played(run, rows)


def test_a_game_whose_engine_raises_once_is_played_again_from_the_same_deal(engines, tmp_path):
    run = settings(tmp_path)
    rows = prompt_rows(run, 2)
    trouble(run, **{"0": {"raises": [2, 3]}})
    results = answers(*(dispatched(engine, row) for engine, row in zip(engines, rows, strict=True)))
    assert_played(run, rows)
    assert_returned(run, results)
    assert asked(run) == {"0": 12, "1": 8}
    performing = [line["ids"] for line in read_log(tmp_path / ASKED) if line["row"] == "0"][:8]
    assert sorted(performing[:4]) == sorted(performing[4:])


def test_a_row_whose_engine_always_raises_tells_every_call_and_the_others_go_on(engines, tmp_path):
    run = settings(tmp_path, samples=8)
    broken, whole = prompt_rows(run, 2)
    trouble(run, **{"0": {"raises": ALWAYS}})
    played = dispatched(engines[0], whole)
    began = time.monotonic()
    calls = [dispatched(engines[0], broken, calls=1) for _ in range(run.samples)]
    for call in calls:
        told = failure(call)
        assert isinstance(told, GamesFailedError)
        assert "could not be played in 3 tries: game 7/1/0/" in str(told)
        assert "the engine raised RuntimeError: the engine is in trouble" in str(told)
    assert time.monotonic() - began < 30
    answers(played)
    assert closed(run) == []
    trouble(run)
    answers(dispatched(engines[1], broken))
    assert_played(run, [broken, whole])


def test_a_call_that_never_comes_is_said_to_its_mates_and_the_row_may_come_again(engines, tmp_path):
    run = settings(tmp_path)
    short, whole = prompt_rows(run, 2)
    played, left = dispatched(engines[0], whole), dispatched(engines[0], short, calls=3)
    told = failure(left)
    assert isinstance(told, TimeoutError)
    assert "3 of the 4 calls that play together came within 4 s" in str(told)
    answers(played)
    assert closed(run) == []
    answers(dispatched(engines[0], short))
    assert_played(run, [short, whole])


def test_a_reply_that_never_comes_ends_at_the_deadline(engines, tmp_path):
    run = settings(tmp_path, deadline_s=2.0, batch_size=3)
    once, always, whole = prompt_rows(run, 3)
    trouble(run, **{"0": {"hangs": [5, 6]}, "1": {"hangs": ALWAYS}})
    played = [dispatched(engines[0], once), dispatched(engines[1], whole)]
    told = failure(dispatched(engines[0], always))
    assert isinstance(told, GamesFailedError)
    assert "no reply within 2 s" in str(told)
    answers(*played)
    assert closed(run) == []
    trouble(run)
    answers(dispatched(engines[1], always))
    assert_played(run, [once, always, whole])
    assert asked(run)["0"] == 16


def test_an_evaluation_in_the_middle_of_an_iteration_moves_nothing(engines, tmp_path):
    run = settings(tmp_path, eval_samples=3, deadline_s=120.0)
    training, held_out = prompt_rows(run, 4), prompt_rows(run, 2, EVAL)
    trouble(run, **{"1": {"waits": [0, 4]}})
    first = [dispatched(engine, row) for engine, row in zip(engines, training[:2], strict=True)]
    until(lambda: asked(run)["1"])
    evaluated = answers(*(dispatched(engine, row) for engine, row in zip(engines, held_out, strict=True)))
    assert [len(row) for row in evaluated] == [3, 3]
    assert closed(run) == []
    assert [line["step"] for line in read_log(tmp_path / "evaluations.jsonl")] == [0]
    trouble(run)
    answers(*first)
    assert_played(run, training[:2])
    answers(*(dispatched(engines[0], row) for row in training[2:]))
    assert_played(run, training[2:], step=2)
    answers(*(dispatched(engines[0], row) for row in held_out))
    assert [line["step"] for line in read_log(tmp_path / "evaluations.jsonl")] == [0, 2]
    assert [game.seed for game in games(run, 2, "eval")] == [game.seed for game in games(run, 0, "eval")]
    moved = run.start
    for step in (1, 2):
        moved = moved.after(games(run, step))
    assert state_after(run, 2) == json.loads(moved.to_json())


def state_after(run, step):
    return json.loads((Path(run.folder) / "coordinator" / f"step_{step:06d}.json").read_text())["curriculum"]


def test_a_second_job_in_the_cluster_has_a_coordinator_of_its_own(engines, address, model, tmp_path):
    run, other = settings(tmp_path / "first"), tmp_path / "second"
    for folder in (Path(run.folder), other):
        folder.mkdir()
    first, second = prompt_rows(run, 2)
    answers(dispatched(engines[0], first))
    job = subprocess.run(
        [sys.executable, "-m", openrlhf_cluster.__name__, address, model, str(other)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-2000:]
    (line,) = (line for line in job.stdout.splitlines() if line.startswith("coordinators:"))
    _, theirs, *living = line.split()
    assert living == sorted([coordinator(), theirs])
    assert len(set(living)) == 2
    theirs_run = settings(other)
    assert_played(theirs_run, prompt_rows(theirs_run, 2))
    assert closed(run) == []
    answers(dispatched(engines[1], second))
    assert_played(run, [first, second])
    until(lambda: theirs not in coordinators())  # its engines ended with their driver
    assert coordinator() in coordinators()


def test_rows_of_an_engine_that_dies_are_played_elsewhere_and_counted_once(engines, tmp_path):
    run = settings(tmp_path, batch_size=4, deadline_s=120.0)
    rows = prompt_rows(run, 4)
    trouble(run, **{row.seed: {"waits": [4, 8]} for row in rows[2:]})
    here, there = (
        [dispatched(engine, row) for row in some] for engine, some in zip(engines, (rows[:2], rows[2:]), strict=True)
    )
    (first,) = answers(here[0])
    until(lambda: asked(run)["2"] == asked(run)["3"] == 8)
    ray.kill(engines[1])
    for row in there:
        assert isinstance(failure(row), ray.exceptions.RayActorError)
    trouble(run)
    results = answers(here[1], *(dispatched(engines[0], row) for row in rows[2:]))
    assert_played(run, rows)
    assert_returned(run, [first, *results])
    assert asked(run) == {"0": 8, "1": 8, "2": 16, "3": 16}
    rows = prompt_rows(run, 8)[4:]
    answers(*(dispatched(engines[0], row) for row in rows))
    assert_played(run, rows, step=2)


def test_the_coordinator_ends_when_all_engines_are_dead(engines, tmp_path):
    run = settings(tmp_path)
    first, _ = prompt_rows(run, 2)
    answers(dispatched(engines[0], first))
    assert coordinator() in coordinators()
    for engine in engines:
        ray.kill(engine)
    until(lambda: coordinator() not in coordinators())
    assert closed(run) == []
    assert games(run) == []
