"""Whole trainings of OpenRLHF: its own trainer, Ray, vLLM and DeepSpeed, started by ``spyrl openrlhf``, without a GPU.

Run with ``-m openrlhf`` in an environment of its own; ``tests/environments/openrlhf.txt`` says which.
"""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import importlib.util
import json
import shutil
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")

from transformers import AutoModelForCausalLM

from spy_env import Stage, read_games
from tests.trainers import tiny_runs, tiny_world
from tests.trainers.engines import vllm_models
from tests.trainers.openrlhf.cluster_runs import ONE_POLICY, Training
from trainers.curriculum import Curriculum
from trainers.disk import read_log
from trainers.engines import Request, Sampling
from trainers.engines.local import load_engine
from trainers.metrics import curriculum_metrics, game_metrics, measure
from trainers.run_folder import games_file
from trainers.samples import trained_roles

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.skipif(importlib.util.find_spec("openrlhf") is None, reason="OpenRLHF isn't installed"),
]

STEPS, SAVED, HELD_OUT, SAMPLES = 6, 2, 2, 24
STAGES = ["detection", "detection", "performing"] * 2
MOVED = 1e-5  # KL to the model before training, in nats a token; log-probabilities differ by about 50 times ONE_POLICY's band


class World(NamedTuple):
    """Where trainings begin: a model that knows the form of a vote, and documents."""

    place: object
    model: str
    flags: tuple[str, ...]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    place = tmp_path_factory.mktemp("cluster")
    model = vllm_models.save("llama", place / "model", steps=60)
    documents = tiny_runs.write_corpus(place / "documents.jsonl", HELD_OUT + STEPS * 3)
    return World(place, model, ("--actor.model_name_or_path", model, "--data.documents", str(documents)))


class Resumed(NamedTuple):
    """A run that was killed with an iteration played that no checkpoint holds, and went on to its end."""

    folder: object
    killed: object  # the folder as the kill left it
    before: dict  # what OpenRLHF logged of its global steps, until the kill and after it
    after: dict


@pytest.fixture(scope="module")
def resumed(world):
    folder, killed = world.place / "run", world.place / "killed"
    flags = (
        *(*world.flags, *ONE_POLICY, "--train.iterations", str(STEPS), "--ckpt.save_steps", str(SAVED)),
        *("--algo.schedule", "cycle", "--algo.cycle", "2", "1"),
        *("--eval.games", str(HELD_OUT), "--eval.steps", "2"),
    )
    before = Training(folder, *flags).kill_at(folder / "coordinator" / "step_000003.json").steps
    shutil.copytree(folder, killed)
    after = Training(folder, *flags, "--ckpt.load_enable").finish().steps
    return Resumed(folder, killed, before, after)


def games_of(folder, step, kind="step"):
    return list(read_games(games_file(folder, step, kind)))


def state_of(folder, step):
    row = json.loads((folder / "coordinator" / f"step_{step:06d}.json").read_text(encoding="utf-8"))
    return Curriculum.from_json(json.dumps(row["curriculum"]))


def start_of(folder):
    row = json.loads((folder / "rows" / "train.jsonl").read_text(encoding="utf-8").splitlines()[0])
    return Curriculum.from_json(json.dumps(json.loads(row["prompt"])["run"]["start"]))


def replayed(folder, steps):
    """Curricula, stages and metrics follow from the games on disk alone. Returns a step's metrics and advantages."""
    rows = read_log(folder / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, steps + 1))
    curriculum, found = start_of(folder), {}
    for row in rows:
        games, trained = games_of(folder, row["step"]), curriculum.stage
        assert {game.trained for game in games} == {trained}
        assert row["stage"] == trained
        found[row["step"]] = row, list(curriculum.advantages(games, trained).values())
        curriculum = curriculum.after(games)
        assert state_of(folder, row["step"]) == curriculum
        expected = game_metrics(games, curriculum.rewards) | curriculum_metrics(curriculum)
        assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-12)
        assert row["reward"] == pytest.approx(mean_trained_reward(games, trained, curriculum.rewards), abs=1e-12)
    return found


def mean_trained_reward(games, stage, rules):
    """The mean of what the trained replies earned."""
    earned = []
    for game in games:
        rewards = game.rewards(rules).performing if stage is Stage.PERFORMING else game.rewards(rules).detection
        roles = trained_roles(stage, game.rules.voters)
        earned += [reward for seat, reward in rewards.items() if game.role(seat) in roles]
    return sum(earned) / len(earned)


def assert_openrlhf_trained_these_games(told, folder, steps):
    """The trainer's global step is the coordinator's iteration, and its rewards are our advantages, whose sum is 0."""
    found = replayed(folder, steps)
    assert sorted(told) == sorted(found)
    for step, (row, advantages) in found.items():
        said = told[step]
        untrained = [0.0] * (int(said["rollout/num_samples"]) - len(advantages))
        assert said["rollout/num_samples"] == SAMPLES
        assert said["rollout/reward_std"] == pytest.approx(
            torch.tensor([*advantages, *untrained]).std().item(), abs=1e-6
        )
        assert said["reward"] == pytest.approx(0, abs=1e-6)
        assert (said["game/detection"] > 0.5) == (row["stage"] == "detection")  # a spy without a vote returns its text
        assert said["game/caught"] == pytest.approx(row["game/caught"], abs=1e-6)


def test_a_killed_run_goes_on_after_its_checkpoint_and_forgets_what_came_later(resumed):
    assert (resumed.killed / "checkpoints" / "_actor" / "latest").read_text(encoding="utf-8") == f"global_step{SAVED}"
    assert [row["step"] for row in read_log(resumed.killed / "metrics.jsonl")] == [1, 2, 3]
    rows = read_log(resumed.folder / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert [row["stage"] for row in rows] == STAGES
    assert sorted(resumed.after) == list(range(SAVED + 1, STEPS + 1))
    for step in range(1, SAVED + 1):
        then, now = (games_file(folder, step).read_bytes() for folder in (resumed.killed, resumed.folder))
        assert now == then


def test_a_resumed_run_plays_the_rows_that_come_next_and_deals_them_the_same(resumed):
    for step in range(1, STEPS + 1):
        assert len(games_of(resumed.folder, step)) == 6
    seeds = [game.seed for step in range(1, STEPS + 1) for game in games_of(resumed.folder, step)]
    assert len(set(seeds)) == len(seeds)
    documents = {game.document.id for step in range(1, STEPS + 1) for game in games_of(resumed.folder, step)}
    assert len(documents) == STEPS * 3
    then, now = ({game.seed: game for game in games_of(place, 3)} for place in (resumed.killed, resumed.folder))
    assert sorted(now) == sorted(then)
    assert all(now[seed].hidden == then[seed].hidden and now[seed].spy == then[seed].spy for seed in now)


def test_curricula_metrics_and_what_openrlhf_trained_follow_from_the_games_on_disk(resumed):
    assert_openrlhf_trained_these_games(resumed.before | resumed.after, resumed.folder, STEPS)
    assert any(state_of(resumed.folder, SAVED).baselines.values())


def test_the_engines_weights_follow_the_trainers_at_every_step_and_after_a_resume(resumed):
    steps = resumed.before | resumed.after
    assert sorted(steps) == list(range(1, STEPS + 1))
    assert {told["is_filter_ratio"] for told in steps.values()} == {0.0}
    assert steps[1]["kl"] == 0.0
    assert all(steps[step]["kl"] > MOVED for step in range(2, STEPS + 1))


def test_the_exported_model_is_the_trained_one_for_plain_transformers(resumed, world):
    final = AutoModelForCausalLM.from_pretrained(resumed.folder / "final").state_dict()
    begun = AutoModelForCausalLM.from_pretrained(world.model).state_dict()
    saved = resumed.folder / "checkpoints" / "_actor" / f"global_step{STEPS}" / "mp_rank_00_model_states.pt"
    trained = torch.load(saved, weights_only=False)["module"]
    assert trained.keys() == final.keys()
    for name, weight in final.items():
        assert torch.equal(weight, trained[name])
        assert not torch.equal(weight, begun[name])
    (reply,) = load_engine(str(resumed.folder / "final")).generate([Request(tiny_world.MARK, "0", Sampling(4))])
    assert reply.ids


def test_held_out_games_are_the_same_in_every_evaluation_and_in_no_training(resumed):
    rows = read_log(resumed.folder / "evaluations.jsonl")
    assert [row["step"] for row in rows] == [2, 4, 6]
    trained = {game.document.id for step in range(1, STEPS + 1) for game in games_of(resumed.folder, step)}
    rules, dealt = start_of(resumed.folder).rewards, set()
    for row in rows:
        games = games_of(resumed.folder, row["step"], "eval")
        dealt.add(frozenset((game.seed, game.document.id, game.spy) for game in games))
        assert len(games) == HELD_OUT
        assert trained.isdisjoint(game.document.id for game in games)
        measured = {name: estimate.value for name, estimate in measure(games, rules).items()}
        assert {name: row[name] for name in measured} == pytest.approx(measured, abs=1e-12)
    assert len(dealt) == 1


def test_models_and_engine_share_a_gpu_and_referees_vote(world):
    folder, steps = world.place / "colocated", 4
    flags = (
        *(*world.flags, *ONE_POLICY, "--train.colocate_all", "--train.iterations", str(steps)),
        *("--algo.schedule", "cycle", "--algo.cycle", "1", "1", "--game.voters", "referees", "--game.referees", "3"),
    )
    told = Training(folder, *flags).finish().steps
    assert_openrlhf_trained_these_games(told, folder, steps)
    assert {len(game.voters) for game in games_of(folder, 1)} == {8}  # a referee a sample
    assert {len(game.voters) for game in games_of(folder, 2)} == {3}
    assert {one["is_filter_ratio"] for one in told.values()} == {0.0}
    assert told[steps]["kl"] > MOVED


def test_generation_runs_ahead_of_training_and_the_count_still_closes(world):
    folder, steps = world.place / "ahead", 4
    flags = (
        *(*world.flags, "--train.async_enable", "--train.iterations", str(steps)),
        *("--algo.schedule", "cycle", "--algo.cycle", "1", "1", "--game.voters", "civilians"),
        *("--eval.games", str(HELD_OUT), "--eval.steps", "2"),
    )
    told = Training(folder, *flags).finish().steps
    assert_openrlhf_trained_these_games(told, folder, steps)
    assert told[steps]["kl"] > MOVED
    assert read_log(folder / "evaluations.jsonl")
