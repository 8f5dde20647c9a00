"""Every schedule and voter rule through whole trainings."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("rich", reason="the display is made of it")

from spy_env import read_games
from tests.trainers import tiny_runs, tiny_world

NO_EVALUATION = {"eval": {"games": 0}, "train": {"iterations": 2}}
STAGES = {  # what two iterations train
    "hysteresis": ["detection", "detection"],
    "cycle": ["detection", "performing"],
    "detection": ["detection", "detection"],
    "performing": ["performing", "performing"],
    "joint": ["joint", "joint"],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_world.model_folder(tmp_path_factory.mktemp("model"), steps=60)


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("schedule", STAGES)
def test_each_schedule_trains_the_stages_that_it_says(model, tmp_path, schedule):
    algo = {"schedule": schedule, "cycle": [1, 1]}
    result = tiny_runs.run(tiny_runs.config_of(tmp_path, model, algo=algo, **NO_EVALUATION))
    metrics = rows(result.folder)
    assert [row["stage"] for row in metrics] == STAGES[schedule]
    # three games of four: every performance, and the votes of all but the spy
    samples = {"detection": 9, "performing": 12, "joint": 21}
    assert [row["num_samples"] for row in metrics] == [samples[stage] for stage in STAGES[schedule]]
    trained = [game.trained for game in read_games(result.folder / "games" / "step_000001.jsonl")]
    assert trained == [None if schedule == "joint" else STAGES[schedule][0]] * 3


@pytest.mark.parametrize(("voters", "samples"), [("all", 9), ("civilians", 9), ("referees", 15)])
def test_each_voter_rule_trains_the_votes_that_it_says(model, tmp_path, voters, samples):
    groups = {"game": {"voters": voters, "referees": 5}, "algo": {"schedule": "detection"}, **NO_EVALUATION}
    result = tiny_runs.run(tiny_runs.config_of(tmp_path, model, **groups))
    assert [row["num_samples"] for row in rows(result.folder)] == [samples, samples]
    roles = {"all": {"civilian", "spy"}, "civilians": {"civilian"}, "referees": {"referee"}}[voters]
    first = rows(result.folder)[0]
    assert {name.rpartition("/")[2] for name in first if name.startswith("game/accuracy/")} == roles


def test_role_baselines_move_in_both_stages_and_count_only_where_wanted(model, tmp_path):
    made = {}
    for rae in (True, False):
        algo = {"schedule": "cycle", "cycle": [1, 1], "rae": rae}
        result = tiny_runs.run(tiny_runs.config_of(tmp_path, model, f"rae-{rae}", algo=algo, **NO_EVALUATION))
        made[rae] = rows(result.folder)
        baselines = [row[f"game/baseline/{tiny_world.TASK}/4/spy"] for row in made[rae]]
        assert baselines[0] != baselines[1]  # after detection, and after performing
    (detection, performing), (detection_without, performing_without) = made[True], made[False]
    assert detection == detection_without
    assert performing["reward"] == performing_without["reward"]
    assert performing["grad_norm"] != performing_without["grad_norm"]


def test_two_games_are_played_on_each_document_where_samples_seat_two(model, tmp_path):
    settings = {**NO_EVALUATION, "rollout": {"n_samples_per_prompt": 8}}
    result = tiny_runs.run(tiny_runs.config_of(tmp_path, model, **settings))
    games = list(read_games(result.folder / "games" / "step_000001.jsonl"))
    assert [game.document.id for game in games] == [f"tiny-{i // 2}" for i in range(6)]
    assert len({game.seed for game in games}) == 6
