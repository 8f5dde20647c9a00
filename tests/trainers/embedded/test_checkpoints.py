"""A run's folder: what it holds, when it is refused, and what a run that failed leaves behind."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("peft", reason="adapters are its")
transformers = pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("tyro", reason="the command reads its flags with it")

from spy_env import read_games
from tests.trainers import tiny_runs, tiny_world
from trainers.embedded import command
from trainers.settings import read_config


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, documents and a finished run of six iterations; tests read it or copy it."""
    place = tmp_path_factory.mktemp("runs")
    tiny_world.model_folder(place / "model", steps=20)
    tiny_runs.run(tiny_runs.config_of(place, place / "model"))
    return place


@pytest.fixture
def copied(place, tmp_path):
    """A copy of the finished run, to be changed; ``tiny_runs.config_of`` names it ``copy``."""
    shutil.copytree(place / "run", place / "copy")
    yield place / "copy"
    shutil.rmtree(place / "copy")


def resumed(place, **groups):
    groups["ckpt"] = {"load_enable": True, **groups.get("ckpt", {})}
    return tiny_runs.config_of(place, place / "model", "copy", **groups)


def lines_of(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def steps(folder):
    return sorted((path.name for path in (folder / "checkpoints").iterdir()), key=lambda name: (len(name), name))


def test_a_run_leaves_the_folder_that_is_promised(place):
    run = place / "run"
    assert {path.name for path in run.iterdir()} == {
        *("config.json", "metrics.jsonl", "timings.jsonl"),
        *("games", "checkpoints", "final"),
    }
    assert {path.name for path in (run / "games").iterdir()} == {
        *(f"step_{step:06d}.jsonl" for step in range(1, 7)),
        *("eval_before.jsonl", "eval_after.jsonl"),
    }
    assert steps(run) == [f"step_{step}" for step in range(1, 7)]
    assert [row["step"] for row in lines_of(run / "metrics.jsonl")] == list(range(1, 7))
    assert [row["step"] for row in lines_of(run / "timings.jsonl")] == list(range(7)), "0: before training"


def test_the_config_is_kept_whole_and_reads_back(place):
    assert read_config(str(place / "run" / "config.json")) == tiny_runs.config_of(place, place / "model")
    facts = json.loads((place / "run" / "config.json").read_text(encoding="utf-8"))
    assert len(facts["weights_sha256"]) == 64
    assert "torch" in facts["versions"]


def test_games_are_saved_by_iteration_with_the_stage_that_they_trained(place):
    stages = [row["stage"] for row in lines_of(place / "run" / "metrics.jsonl")]
    assert stages == ["detection", "detection", "performing"] * 2
    for step, stage in enumerate(stages, start=1):
        games = list(read_games(place / "run" / "games" / f"step_{step:06d}.jsonl"))
        assert [game.seed for game in games] == [f"42/{step}/{i}" for i in range(3)]
        assert {game.trained for game in games} == {stage}


def test_held_out_documents_are_evaluated_before_and_after_and_never_trained_on(place):
    games = {file.name: list(read_games(file)) for file in (place / "run" / "games").iterdir()}
    before, after = games.pop("eval_before.jsonl"), games.pop("eval_after.jsonl")
    deals = [[(game.document, game.spy, game.hidden) for game in played] for played in (before, after)]
    assert deals[0] == deals[1]
    trained_on = {game.document.id for played in games.values() for game in played}
    assert {game.document.id for game in before} == {"tiny-0", "tiny-1"}
    assert trained_on == {f"tiny-{i}" for i in range(2, 9)}


def test_checkpoints_and_the_final_model_are_plain_folders(place):
    run = place / "run"
    template = transformers.AutoTokenizer.from_pretrained(place / "model").chat_template
    for folder in (run / "final", run / "checkpoints" / "step_3"):
        assert transformers.AutoModelForCausalLM.from_pretrained(folder).config.model_type == "gpt2"
        assert transformers.AutoTokenizer.from_pretrained(folder).chat_template == template
    last, final = (folder / "model.safetensors" for folder in (run / "checkpoints" / "step_6", run / "final"))
    assert last.read_bytes() == final.read_bytes()


def test_the_same_seed_makes_the_same_run_byte_for_byte_and_another_seed_does_not(place):
    again = tiny_runs.run(tiny_runs.config_of(place, place / "model", "again")).folder
    assert tiny_runs.made(again) == tiny_runs.made(place / "run")
    other = tiny_runs.run(tiny_runs.config_of(place, place / "model", "other", train={"seed": 43})).folder
    assert tiny_runs.made(other)["metrics.jsonl"] != tiny_runs.made(again)["metrics.jsonl"]
    assert tiny_runs.made(other)["model.safetensors"] != tiny_runs.made(again)["model.safetensors"]


def test_the_model_card_names_base_task_rules_settings_and_results(place):
    card = (place / "run" / "final" / "README.md").read_text(encoding="utf-8")
    facts = json.loads((place / "run" / "config.json").read_text(encoding="utf-8"))
    assert card.startswith(f"---\nbase_model: {place / 'model'}\n")
    for said in (
        facts["weights_sha256"],
        f"| task | {tiny_world.TASK} |",
        '"mask_fraction": ',
        '"unreadable": -1.0',
        "| iterations | 6, 3 games each, stages 4 detection, 2 performing |",
        "| adaptation | full fine-tuning |",
        "| learning rate | 0.001 |",
        "| seed | 42 |",
        "| detection accuracy |",
    ):
        assert said in card, said


def test_only_the_last_checkpoints_are_kept(place):
    config = tiny_runs.config_of(place, place / "model", "kept", ckpt={"max_num": 2, "save_steps": 2})
    assert steps(tiny_runs.run(config).folder) == ["step_4", "step_6"]


def test_iterations_between_checkpoints_are_not_lost_at_the_end(place):
    config = tiny_runs.config_of(
        place, place / "model", "timed", ckpt={"save_steps": 4}, train={"iterations": 50, "max_minutes": 0.0}
    )
    assert steps(tiny_runs.run(config).folder) == ["step_1"], "no time for a second iteration"


def test_a_folder_that_holds_a_run_is_refused_unless_it_is_to_go_on(place):
    before = tiny_runs.made(place / "run")
    with pytest.raises(ValueError, match=r"holds a run already.*--ckpt\.load_enable"):
        tiny_runs.run(tiny_runs.config_of(place, place / "model"))
    assert tiny_runs.made(place / "run") == before


def test_a_folder_that_can_not_be_written_is_refused(place):
    (place / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(ValueError, match=r"can't be written.*--ckpt\.output_dir"):
        tiny_runs.run(tiny_runs.config_of(place, place / "model", "file/run"))


CHANGES = {
    "--game.words": {"game": {"words": 7}},
    "--game.task": {"game": {"task": "summarization"}},
    "--game.wrong": {"game": {"wrong": -0.5}},
    "--algo.schedule": {"algo": {"schedule": "detection"}},
    "--algo.alpha": {"algo": {"alpha": 0.5}},
    "--ds.lora.rank": {"ds": {"lora": {"rank": 2}}},
    "--train.seed": {"train": {"seed": 7}},
    "--rollout.batch_size": {"rollout": {"batch_size": 2}},
    "--rollout.n_samples_per_prompt": {"rollout": {"n_samples_per_prompt": 8}},
    "--eval.games": {"eval": {"games": 1}},
}


@pytest.mark.parametrize("flag", CHANGES)
def test_going_on_with_what_baselines_and_weights_depend_on_changed_is_refused_by_name(place, copied, flag):
    before = tiny_runs.made(copied)
    with pytest.raises(ValueError, match=rf"step_6 was made with {flag} .*resume with the same") as error:
        tiny_runs.run(resumed(place, **CHANGES[flag]))
    assert len(str(error.value)) < 500, "one setting is named, not its whole group"
    assert tiny_runs.made(copied) == before


def test_a_checkpoint_of_another_version_is_refused(place, copied):
    progress = copied / "checkpoints" / "step_6" / "progress.json"
    progress.write_text(progress.read_text(encoding="utf-8").replace('"version": 3', '"version": 99'), encoding="utf-8")
    with pytest.raises(
        ValueError,
        match=r"step_6 is of checkpoint version 99; this package reads version 3. Go on with the spy-env that made it",
    ):
        tiny_runs.run(resumed(place))


def flags_of(rows, prefix=""):
    """Nested settings as command-line flags."""
    for name, value in rows.items():
        if isinstance(value, dict):
            yield from flags_of(value, f"{prefix}{name}.")
        elif isinstance(value, bool):
            yield f"--{prefix}{'' if value else 'no_'}{name}"
        else:
            yield from (f"--{prefix}{name}", *map(str, value if isinstance(value, list) else [value]))


def test_numbers_that_run_away_stop_the_command_and_leave_the_last_checkpoint_whole(place, capsys):
    rows = tiny_runs.settings(place, place / "model", "away", actor={"adam": {"lr": 1e30}})
    assert command.main(list(flags_of(rows))) == 1
    said = capsys.readouterr().err
    assert "spyrl train stopped" in said
    assert "42/2/0" in said, "the games of the second iteration are named"
    assert "--ckpt.load_enable" in said
    run = place / "away"
    assert steps(run) == ["step_1"]
    assert [row["step"] for row in lines_of(run / "metrics.jsonl")] == [1]
    assert not (run / "games" / "step_000002.jsonl").exists()
    transformers.AutoModelForCausalLM.from_pretrained(run / "checkpoints" / "step_1")
    assert not (run / "final").exists()


def test_the_command_trains_and_says_where_everything_is(place, capsys):
    rows = tiny_runs.settings(place, place / "model", "told", train={"iterations": 2})
    assert command.main(list(flags_of(rows))) == 0
    said = capsys.readouterr().out
    for line in ("iteration 1 (detection)", "iteration 2 (detection)", "detection accuracy", "The spy was player_"):
        assert line in said, line
    assert str(place / "told" / "final") in said
