"""A run's folder before OpenRLHF starts: rows in whole batches, what travels, and a run that goes on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spy_env import Document, Rules, Stage
from trainers import disk
from trainers.cluster.preparation import check_folder
from trainers.cluster.prompt_rows import from_json
from trainers.config import Ckpt, Config, Train
from trainers.curriculum import Schedule
from trainers.engines import Sampling
from trainers.openrlhf.job import TRAINER, Job
from trainers.openrlhf.launch import Passed
from trainers.settings import from_dict

P, D = Stage.PERFORMING, Stage.DETECTION
TASK = Path(__file__).parents[2] / "wheel" / "my_task.py"
DOCUMENTS = 9


@pytest.fixture
def config(tmp_path):
    documents = tmp_path / "documents.jsonl"
    rows = [
        {"id": f"d{i}", "text": f"the {i}. of some short documents that games are played on"} for i in range(DOCUMENTS)
    ]
    documents.write_text("\n".join(map(json.dumps, rows)))
    return from_dict(
        Config,
        {
            "game": {"players": 4},
            "algo": {"schedule": "cycle", "cycle": [2, 1]},
            "actor": {"model_name_or_path": "some/model", "num_gpus_per_node": 1},
            "rollout": {"batch_size": 3, "n_samples_per_prompt": 8, "max_new_tokens": 90, "temperature": 0.5},
            "train": {"iterations": 4},
            "data": {"documents": str(documents), "max_len": 500},
            "eval": {"games": 2},
            "ckpt": {"output_dir": str(tmp_path / "run")},
        },
        "test",
    )


def prepared(config, address=None):
    job = Job.of(config, address)
    job.prepare("some/model", "the command", [Passed("ds.zero_stage", ("3",))], lambda text: None)
    return job


def rows_of(job, name="train"):
    return [from_json(row["prompt"]) for row in disk.read_log(job.folder / "rows" / f"{name}.jsonl")]


def going_on(config, **changes):
    return replace(config, ckpt=replace(config.ckpt, load_enable=True), **changes)


def test_rows_are_whole_batches_each_with_a_seed_and_documents_begin_again(config):
    train = rows_of(prepared(config))
    assert len(train) == 4 * 3
    assert len({row.seed for row in train}) == 12
    assert [row.document.id for row in train] == [f"d{2 + i % (DOCUMENTS - 2)}" for i in range(12)]
    assert {row.split for row in train} == {"train"}


def test_held_out_documents_are_the_rows_of_evaluation_alone(config):
    job = prepared(config)
    held_out = rows_of(job, "eval")
    assert [(row.document.id, row.split, row.samples) for row in held_out] == [("d0", "eval", 4), ("d1", "eval", 4)]
    assert not {row.document for row in held_out} & {row.document for row in rows_of(job)}
    assert not {row.seed for row in held_out} & {row.seed for row in rows_of(job)}


def test_episodes_play_the_same_rows(config):
    job = prepared(replace(config, train=Train(iterations=4, num_episodes=2)))
    assert len(rows_of(job)) == 2 * 3


def test_a_row_says_everything_of_the_run(config):
    job = prepared(config)
    run = rows_of(job)[0].run
    assert all(row.run == run for row in rows_of(job) + rows_of(job, "eval"))
    assert (run.folder, run.checkpoints) == (str(job.folder), str(job.folder / "checkpoints"))
    assert run.rules == Rules(players=4)
    assert run.start.schedule == Schedule("cycle", (2, 1))
    assert run.sampling == {P: Sampling(90, 0.5), D: Sampling(90, 0.5)}
    assert (run.task, run.max_len, run.batch_size, run.samples, run.eval_rows, run.eval_samples, run.seed) == (
        *("summarization", 500, 3, 8, 2, 4, 42),
    )
    assert run.resume is False


def test_a_row_carries_no_more_of_a_document_than_is_dealt(config):
    short = prepared(replace(config, game=replace(config.game, document_words=5)))
    assert rows_of(short)[0].document == Document("d2", "the 2. of some short")


def test_a_task_file_travels_and_workers_know_it_by_its_place(config, tmp_path):
    mine = replace(config, game=replace(config.game, task=str(TASK)))
    here = prepared(mine)
    assert rows_of(here)[0].run.task == str(here.files / "my_task.py")
    there = prepared(replace(mine, ckpt=Ckpt(str(tmp_path / "away"))), "http://head:8265")
    assert rows_of(there)[0].run.task == "my_task.py"
    for job in (here, there):
        assert (job.files / "my_task.py").read_text() == TASK.read_text()
        assert (job.files / "agent.py").read_text() == Path("trainers/openrlhf/agent.py").absolute().read_text()
    away = tmp_path / "away"
    rows = (str(away / "rows" / "train.jsonl"), str(away / "rows" / "eval.jsonl"))
    assert there.paths("m") == ("m", *rows, "agent.py", str(away / "checkpoints"), str(away / "final"))
    assert here.paths("m").agent == str(tmp_path / "run" / "job" / "agent.py")
    assert {file.name for file in there.files.iterdir()} == {"agent.py", "my_task.py"}  # Ray takes little


def test_a_run_that_was_prepared_and_never_played_is_prepared_anew(config):
    prepared(config)
    other = replace(config, train=replace(config.train, seed=43))
    assert rows_of(prepared(other))[0].run.seed == 43


def test_the_folder_tells_what_the_run_was(config):
    job = prepared(config)
    row = json.loads((job.folder / "config.json").read_text())
    assert row["config"] == json.loads(json.dumps(config.without_secrets()))
    assert (row["trainer"], row["model"], row["command"]) == ("openrlhf", "some/model", "the command")


def test_a_folder_that_holds_a_run_is_refused_unless_it_goes_on(config):
    (prepared(config).folder / "metrics.jsonl").touch()
    with pytest.raises(ValueError, match=r"holds a run already \(metrics\.jsonl\); choose another --ckpt\.output_dir"):
        prepared(config)
    assert all(row.run.resume for row in rows_of(prepared(going_on(config))))


@pytest.mark.parametrize(
    ("folder", "found"), [("a,b", ","), ("run[1]", r"\[ \]"), ("me@home/run", "@")], ids=["comma", "brackets", "above"]
)
def test_a_folder_in_which_openrlhf_cannot_read_a_data_set_is_refused(config, tmp_path, monkeypatch, folder, found):
    above = (tmp_path / folder).parent
    above.mkdir(exist_ok=True)
    monkeypatch.chdir(above)
    name = Path(folder).name
    with pytest.raises(ValueError, match=f"can't read a data set under a name with {found}: choose another"):
        Job.of(replace(config, ckpt=replace(config.ckpt, output_dir=name)))


@pytest.mark.parametrize("trace", ["metrics.jsonl", "games", "coordinator", "checkpoints"])
def test_any_trace_of_a_run_is_one(config, trace):
    folder = Job.of(config).folder
    (folder / trace).mkdir(parents=True)
    check_folder(config, folder, TRAINER)  # an empty folder is no trace
    (folder / trace / "something").touch()
    with pytest.raises(ValueError, match=f"holds a run already .{trace}"):
        check_folder(config, folder, TRAINER)


def test_a_run_of_the_first_version_does_not_go_on_here(config):
    (Job.of(config).folder / "director").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"holds a run of spy-env 0\.1\.0.*another --ckpt\.output_dir"):
        prepared(going_on(config))


def test_a_run_of_another_trainer_does_not_go_on_here(config):
    folder = Job.of(config).folder
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"config": {}}))
    with pytest.raises(ValueError, match="holds a run of another trainer"):
        prepared(going_on(config))


def test_a_run_that_goes_on_keeps_its_rows_whatever_became_of_the_documents(config):
    before = rows_of(prepared(config))
    Path(config.data.documents).unlink()
    again = rows_of(prepared(going_on(config)))
    assert [replace(row, run=before[0].run) for row in again] == before


def test_a_run_that_goes_on_may_train_longer_by_whole_episodes(config):
    before = rows_of(prepared(config))
    longer = going_on(config, train=replace(config.train, iterations=8, num_episodes=2))
    assert [row.document for row in rows_of(prepared(longer))] == [row.document for row in before]
    with pytest.raises(
        ValueError, match="has 12 rows per episode, and now there would be 24, in another order; to train"
    ):
        prepared(going_on(config, train=replace(config.train, iterations=8)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rollout": {"temperature": 0.9}},
            "made with --rollout.temperature 0.5, and now it is 0.9; resume with the same",
        ),
        ({"game": {"lam": 0.3}}, "made with --game.lam None, and now it is 0.3"),
        ({"algo": {"patience": 9}}, "made with --algo.patience 20, and now it is 9"),
        ({"eval": {"games": 1}}, "made with --eval.games 2, and now it is 1"),
        ({"train": {"seed": 1}}, "made with --train.seed 42, and now it is 1"),
        ({"actor": {"model_name_or_path": "other/model"}}, "made with --actor.model_name_or_path some/model"),
    ],
)
def test_a_run_that_goes_on_keeps_what_it_depends_on(config, changes, message):
    prepared(config)
    changed = {group: replace(getattr(config, group), **values) for group, values in changes.items()}
    with pytest.raises(ValueError, match=message):
        prepared(going_on(config, **changed))


def test_a_task_file_keeps_its_place_since_baselines_are_kept_by_it(config):
    mine = replace(config, game=replace(config.game, task=str(TASK)))
    prepared(mine)
    with pytest.raises(ValueError, match=r"made with --task .*/run/job/my_task\.py, and now it is my_task\.py"):
        prepared(going_on(mine), "http://head:8265")


def test_a_checkpoint_that_was_begun_and_never_finished_is_cleared_away(config):
    actor = prepared(config).folder / "checkpoints" / "_actor"
    (actor / "global_step1").mkdir(parents=True)
    prepared(going_on(config))
    assert not actor.exists()
    (actor / "global_step1").mkdir(parents=True)
    (actor / "latest").write_text("global_step1")
    prepared(going_on(config))
    assert (actor / "global_step1").exists()


def test_too_few_documents_are_said_so(config):
    with pytest.raises(ValueError, match="has 9 playable documents, and 9 are held out"):
        prepared(replace(config, eval=replace(config.eval, games=9)))


def checkpoints(job, steps, latest):
    actor = job.folder / "checkpoints" / "_actor"
    for step in steps:
        (actor / f"global_step{step}").mkdir(parents=True)
    if latest:
        (actor / "latest").write_text(f"{latest}\n")
    return actor


def test_a_first_checkpoint_that_never_was_whole_is_cleared_away(config):
    actor = checkpoints(prepared(config), [2], latest=None)
    prepared(going_on(config))
    assert not actor.exists()


def test_a_later_checkpoint_that_never_was_whole_takes_no_whole_ones_place(config):
    actor = checkpoints(prepared(config), [8, 9, 10], latest="global_step9")
    prepared(going_on(config))
    assert sorted(path.name for path in actor.iterdir()) == ["global_step8", "global_step9", "latest"]


def test_checkpoints_stay_where_the_name_of_the_latest_says_nothing(config):
    actor = checkpoints(prepared(config), [8, 9], latest="best_global_step8")
    prepared(going_on(config))
    assert len(list(actor.glob("global_step*"))) == 2
