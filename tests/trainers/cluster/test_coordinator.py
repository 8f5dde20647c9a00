import json
from dataclasses import replace
from pathlib import Path

import pytest

from spy_env import Stage, read_games
from tests.trainers.engines.called_engines import settings
from tests.trainers.made_games import voted
from trainers.cluster.coordinator import Coordinator
from trainers.disk import read_log
from trainers.inspection.command import main as inspect
from trainers.metrics import curriculum_metrics, game_metrics, sample_metrics
from trainers.samples import Sample

RIGHT, WRONG = "1 1 1 1", "2 3 4 2"


CYCLE = {"schedule": "cycle", "cycle": (1, 1)}


@pytest.fixture
def run(tmp_path):
    return settings(tmp_path / "run", algo=CYCLE)


def sample(game, reward=1.0):
    return Sample(game.seed, Stage.DETECTION, "player_2", "civilian", (), (1, 2), (), False, reward)


def finish(coordinator, seed, votes=RIGHT, engine="a"):
    """Play a row to its end; returns its game."""
    assigned = coordinator.begin(seed, engine)
    game = voted(votes, f"{assigned.iteration}/{seed}")
    coordinator.finish(seed, engine, [game], [sample(game)])
    return game


def play(coordinator, iterations, votes=RIGHT):
    return [[finish(coordinator, f"{i}/{row}", votes) for row in range(2)] for i in range(iterations)]


def checkpoint(run, step):
    folder = Path(run.checkpoints) / "_actor"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest").write_text(f"global_step{step}")


def test_whole_batches_of_rows_are_iterations_and_the_stage_travels_with_each(run):
    coordinator = Coordinator(run)
    assigned = []
    for i in range(3):
        for row in "ab":
            assigned.append(coordinator.begin(f"{i}{row}", "e"))
        for row in "ba":
            coordinator.finish(f"{i}{row}", "e", [voted(RIGHT)], [sample(voted(RIGHT))])
    assert [each.iteration for each in assigned] == [1, 1, 2, 2, 3, 3]
    stages = [each.curriculum.stage for each in assigned]
    assert stages == [Stage.DETECTION] * 2 + [Stage.PERFORMING] * 2 + [Stage.DETECTION] * 2


def test_the_curriculum_moves_once_an_iteration_with_all_of_its_games(run):
    coordinator = Coordinator(run)
    curriculum = run.start
    for games in play(coordinator, 4, WRONG):
        curriculum = curriculum.after(games)
    assert coordinator.curriculum == curriculum
    assert any(curriculum.baselines.values())


def test_an_iteration_writes_its_games_its_metrics_and_the_state_after_it(run, tmp_path):
    coordinator = Coordinator(run)
    games = play(coordinator, 2, WRONG)
    folder = tmp_path / "run"
    for step, (played, stage) in enumerate(zip(games, ("detection", "performing"), strict=True), start=1):
        assert list(read_games(folder / f"games/step_{step:06d}.jsonl")) == played
        line = read_log(folder / "metrics.jsonl")[step - 1]
        state = json.loads((folder / f"coordinator/step_{step:06d}.json").read_text())
        moved = run.start.after(games[0]) if step == 1 else run.start.after(games[0]).after(games[1])
        expected = game_metrics(played, run.start.rewards) | sample_metrics([sample(game) for game in played])
        assert line == {"step": step, "stage": stage, **expected, **curriculum_metrics(moved)}
        assert state["curriculum"] == json.loads(moved.to_json())
        assert read_log(folder / "timings.jsonl")[step - 1]["play_s"] >= 0


def test_nothing_is_written_before_the_last_row_is_over(run, tmp_path):
    coordinator = Coordinator(run)
    coordinator.begin("1", "a")
    finish(coordinator, "0")
    assert not (tmp_path / "run/metrics.jsonl").exists()
    assert not list((tmp_path / "run/games").iterdir())
    coordinator.finish("1", "a", [voted(RIGHT)], [sample(voted(RIGHT))])
    assert len(read_log(tmp_path / "run/metrics.jsonl")) == 1


def test_a_row_too_many_is_an_error_that_names_what_is_still_played(run):
    coordinator = Coordinator(run)
    finish(coordinator, "0")
    coordinator.begin("1", "a")
    with pytest.raises(ValueError, match=r"row '2' came while iteration 1 still plays \['1'\] \(1 of its 2 rows\)"):
        coordinator.begin("2", "a")
    coordinator.finish("1", "a", [voted(RIGHT)], [sample(voted(RIGHT))])
    assert coordinator.begin("2", "a").iteration == 2


def test_a_row_that_begins_again_elsewhere_counts_once_and_only_its_last_games_do(run, tmp_path):
    coordinator = Coordinator(run)
    coordinator.begin("0", "dead")
    finish(coordinator, "1")
    coordinator.begin("0", "alive")
    with pytest.raises(ValueError, match="row '0' isn't played by engine dead in iteration 1; not counted"):
        coordinator.finish("0", "dead", [voted(WRONG, "never")], [])
    game = voted(RIGHT, "again")
    coordinator.finish("0", "alive", [game], [sample(game)])
    assert game in list(read_games(tmp_path / "run/games/step_000001.jsonl"))
    assert len(list(read_games(tmp_path / "run/games/step_000001.jsonl"))) == 2
    assert coordinator.iteration == 2


def test_a_row_that_was_over_when_its_engine_died_begins_again_and_replaces_its_games(run, tmp_path):
    coordinator = Coordinator(run)
    finish(coordinator, "0", WRONG, "dead")
    again = finish(coordinator, "0", RIGHT, "alive")
    finish(coordinator, "1")
    assert next(iter(read_games(tmp_path / "run/games/step_000001.jsonl"))) == again
    assert len(list(read_games(tmp_path / "run/games/step_000001.jsonl"))) == 2


def test_a_row_that_is_given_up_begins_again_and_one_that_another_plays_stays(run):
    coordinator = Coordinator(run)
    coordinator.begin("0", "a")
    coordinator.give_up("0", "b")
    assert coordinator.engine_of("0") == "a"
    coordinator.give_up("0", "a")
    assert coordinator.engine_of("0") == ""
    finish(coordinator, "0", engine="b")
    finish(coordinator, "1")
    assert coordinator.iteration == 2


def test_a_row_that_is_over_cannot_be_finished_twice(run):
    coordinator = Coordinator(run)
    finish(coordinator, "0")
    with pytest.raises(ValueError, match="not counted"):
        coordinator.finish("0", "a", [voted(WRONG)], [])


def test_evaluations_move_neither_count_nor_baselines(run, tmp_path):
    coordinator, other = Coordinator(run), Coordinator(replace(run, folder=str(tmp_path / "other")))
    play(other, 2, WRONG)
    finish(coordinator, "0/0", WRONG)
    held_out = [voted(RIGHT, f"7/eval/{i}/0") for i in range(2)]
    coordinator.evaluated("0", held_out[:1])
    finish(coordinator, "0/1", WRONG)
    assert not (tmp_path / "run/evaluations.jsonl").exists()
    coordinator.evaluated("1", held_out[1:])
    finish(coordinator, "1/0", WRONG)
    finish(coordinator, "1/1", WRONG)
    assert coordinator.curriculum == other.curriculum
    assert list(read_games(tmp_path / "run/games/eval_000001.jsonl")) == held_out
    (line,) = read_log(tmp_path / "run/evaluations.jsonl")
    assert line["step"] == 1
    assert line["detection accuracy"] == 1.0


def test_every_evaluation_is_one_point_of_the_curves(run, tmp_path):
    coordinator = Coordinator(run)
    for votes in (RIGHT, WRONG):
        for seed in "10":
            coordinator.evaluated(seed, [voted(votes, f"7/eval/{seed}/0")])
        play(coordinator, 1)
        held_out = read_games(tmp_path / f"run/games/eval_{coordinator.iteration - 2:06d}.jsonl")
        assert [game.seed for game in held_out] == ["7/eval/0/0", "7/eval/1/0"]
    points = read_log(tmp_path / "run/evaluations.jsonl")
    assert [(line["step"], line["detection accuracy"]) for line in points] == [(0, 1.0), (1, 0.0)]


def test_an_iteration_is_timed_from_its_first_row(run, tmp_path, monkeypatch):
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("trainers.cluster.coordinator.time.monotonic", lambda: next(clock))
    play(Coordinator(run), 2)  # the coordinator's start reads the clock once, each iteration twice
    assert [line["play_s"] for line in read_log(tmp_path / "run/timings.jsonl")] == [10, 10]


def test_a_run_resumes_at_the_step_that_the_checkpoint_names_and_cuts_what_came_later(run, tmp_path):
    coordinator = Coordinator(run)
    games = play(coordinator, 4, WRONG)
    coordinator.evaluated("0", [voted(RIGHT)])
    coordinator.evaluated("1", [voted(RIGHT)])
    checkpoint(run, 3)
    resumed = Coordinator(replace(run, resume=True))
    curriculum = run.start
    for played in games[:3]:
        curriculum = curriculum.after(played)
    assert (resumed.iteration, resumed.curriculum) == (4, curriculum)
    assert [line["step"] for line in read_log(tmp_path / "run/metrics.jsonl")] == [1, 2, 3]
    assert sorted(path.name for path in (tmp_path / "run/games").iterdir()) == [
        f"step_{step:06d}.jsonl" for step in (1, 2, 3)
    ]
    assert len(list((tmp_path / "run/coordinator").iterdir())) == 3
    assert read_log(tmp_path / "run/evaluations.jsonl") == []


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(run, tmp_path):
    play(Coordinator(run), 1)
    resumed = Coordinator(replace(run, resume=True))
    assert (resumed.iteration, resumed.curriculum) == (1, run.start)
    assert read_log(tmp_path / "run/metrics.jsonl") == []


def test_a_folder_with_a_run_is_refused_unless_it_is_resumed(run):
    play(Coordinator(run), 1)
    with pytest.raises(ValueError, match=r"holds a run already \(metrics.jsonl\).*--ckpt.load_enable"):
        Coordinator(run)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch_size": 3}, "was made with --batch_size 2, and now it is 3"),
        ({"max_len": 65}, "was made with --max_len 64, and now it is 65"),
        ({"seed": 8}, "was made with --seed 7, and now it is 8"),
    ],
)
def test_a_resume_with_other_settings_is_refused(run, changed, message):
    play(Coordinator(run), 1)
    checkpoint(run, 1)
    with pytest.raises(ValueError, match=message):
        Coordinator(replace(run, resume=True, **changed))


def test_a_resume_may_move_the_folder_and_the_deadline(run):
    play(Coordinator(run), 1)
    checkpoint(run, 1)
    assert Coordinator(replace(run, resume=True, deadline_s=99.0)).iteration == 2


def test_a_state_that_is_missing_or_broken_is_named_with_the_way_out(run, tmp_path):
    play(Coordinator(run), 1)
    checkpoint(run, 2)
    with pytest.raises(ValueError, match=r"step_000002.json can't be read .*name an older checkpoint"):
        Coordinator(replace(run, resume=True))
    checkpoint(run, 1)
    (tmp_path / "run/coordinator/step_000001.json").write_text('{"step": 1, "curr')
    with pytest.raises(ValueError, match=r"step_000001.json can't be read"):
        Coordinator(replace(run, resume=True))
    assert len(read_log(tmp_path / "run/metrics.jsonl")) == 1  # nothing is cut by a resume that is refused


def test_a_checkpoint_of_another_kind_is_refused(run, tmp_path):
    play(Coordinator(run), 1)
    checkpoint(run, 1)
    (tmp_path / "run/checkpoints/_actor/latest").write_text("best_global_step1")
    with pytest.raises(ValueError, match="names 'best_global_step1', not global_stepN"):
        Coordinator(replace(run, resume=True))


def test_a_run_on_verl_resumes_at_the_step_that_verl_names(run):
    coordinator = Coordinator(run)
    games = play(coordinator, 3)
    checkpoints = Path(run.checkpoints)
    checkpoints.mkdir(parents=True)
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("2")
    resumed = Coordinator(replace(run, resume=True))
    assert (resumed.iteration, resumed.curriculum) == (3, run.start.after(games[0]).after(games[1]))
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("two")
    with pytest.raises(ValueError, match="names 'two', not a step"):
        Coordinator(replace(run, resume=True))


def test_a_run_on_the_cluster_is_inspected_as_any_other(run, tmp_path, capsys):
    play(Coordinator(run), 4, WRONG)
    assert inspect([str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "2 detection, 2 performing" in out
    assert "Detection accuracy by voter's role: civilian" in out
    assert "Role baselines: summarization/4/spy" in out
    assert "last 8 games" in out
    assert "KL to the model" not in out  # OpenRLHF tells it to its own trackers
    page = (tmp_path / "run" / "inspection" / "report.html").read_text(encoding="utf-8")
    assert "KL to the model before training" in page[page.index("In none of these runs") :]
