"""Disks that are full or refuse to be written: said plainly, nothing lost, and the run goes on when there is room."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json
import shutil
import subprocess
import threading

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="the policy imports it")
pytest.importorskip("tyro", reason="the command reads its flags with it")
resource = pytest.importorskip("resource", reason="limits the length of files, on Unix")

from spy_env.viewer.replay import main as replay
from tests.trainers import tiny_runs, tiny_world
from tests.trainers.embedded.test_checkpoints import flags_of
from trainers import disk
from trainers.disk import NotWrittenError
from trainers.embedded import command
from trainers.embedded.checkpoints import RunFolder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, documents and an uninterrupted run of six iterations."""
    place = tmp_path_factory.mktemp("runs")
    tiny_world.model_folder(place / "model", steps=20)
    tiny_runs.run(tiny_runs.config_of(place, place / "model", "whole"))
    return place


@pytest.fixture
def run(place):
    yield place / "run"
    shutil.rmtree(place / "run", ignore_errors=True)


def train(place, output="run", **groups):
    """``spyrl train`` with flags; the exit code."""
    return command.main(list(flags_of(tiny_runs.settings(place, place / "model", output, **groups))))


def limited(size):
    """Files that grow beyond ``size`` bytes are refused by the system, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.fixture
def limit():
    """Set a limit; it is taken back at the end."""
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield limited
    limited(soft)


@pytest.fixture
def small_disk(place):
    """A disk of its own, and how to change its size."""
    mounted = place / "disk"
    mounted.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(mounted)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        mounted.rmdir()
        pytest.skip(f"a small disk can't be mounted here: {done.stderr.strip()}")
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)
    mounted.rmdir()


def fill(folder, left):
    """Leave ``left`` bytes on a disk."""
    with (folder / "filler").open("wb", buffering=0) as file:
        file.write(b"x" * (shutil.disk_usage(folder).free - left))


ROOM = (0, 8_192, 40_000, 300_000, 1_200_000, 3_000_000)  # bytes; a checkpoint is 1.8 million


def checkpoints(run):
    return sorted(path.name for path in (run / "checkpoints").iterdir())


# Room for nothing; for lines and games; for a part of the model, of the optimizer; for one checkpoint.
@pytest.mark.parametrize(
    "left", [pytest.param(left, marks=[] if left == 1_200_000 else pytest.mark.slow) for left in ROOM]
)
def test_a_full_disk_stops_the_command_with_the_last_checkpoint_whole_and_with_room_it_goes_on(
    place, small_disk, capsys, left
):
    run = small_disk / "run"
    assert train(place, str(run), train={"iterations": 2}) == 0
    fill(small_disk, left)
    assert train(place, str(run), ckpt={"load_enable": True}) == 1
    said = capsys.readouterr().err
    assert "spyrl train stopped: " in said
    assert str(run) in said
    assert "can't be written: No space left on device; free space, then go on with --ckpt.load_enable" in said
    assert "Traceback" not in said
    assert checkpoints(run)[:2] == ["step_1", "step_2"]
    assert not list((run / "checkpoints").glob(".*"))
    (small_disk / "filler").unlink()
    assert train(place, str(run), ckpt={"load_enable": True}) == 0
    assert tiny_runs.made(run) == tiny_runs.made(place / "whole")


@pytest.mark.parametrize(
    "size", [pytest.param(1_000, marks=pytest.mark.slow), 200_000, pytest.param(1_000_000, marks=pytest.mark.slow)]
)
def test_what_torch_safetensors_and_the_system_say_of_a_file_that_does_not_fit_is_said_alike(
    place, run, limit, capsys, size
):
    assert train(place, train={"iterations": 2}) == 0
    limit(size)
    code = train(place, ckpt={"load_enable": True})
    limit(resource.RLIM_INFINITY)
    assert code == 1
    said = capsys.readouterr().err
    assert "can't be written: File too large; free space, then go on with --ckpt.load_enable" in said
    assert "Traceback" not in said
    assert checkpoints(run) == ["step_1", "step_2"]
    assert train(place, ckpt={"load_enable": True}) == 0
    assert tiny_runs.made(run) == tiny_runs.made(place / "whole")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of TensorBoard's own thread
def test_a_board_on_a_full_disk_stops_the_command_as_well(place, run, small_disk, capsys):
    pytest.importorskip("tensorboard")
    board = small_disk / "board"
    fill(small_disk, 4_096)
    assert train(place, logger={"tensorboard_dir": str(board)}) == 1
    assert f"{board} can't be written: No space left on device; free space" in capsys.readouterr().err
    assert tiny_runs.run(tiny_runs.config_of(place, place / "model", ckpt={"load_enable": True}))
    assert tiny_runs.made(run) == tiny_runs.made(place / "whole")


def test_errors_that_are_not_the_disks_stay_as_they_are(tmp_path):
    for error in (RuntimeError("shapes differ"), KeyError("weights"), ValueError("no such thing")):
        with pytest.raises(type(error)) as caught, disk.writing(tmp_path):
            raise error
        assert caught.value is error


def test_a_line_that_does_not_fit_leaves_the_lines_before_it(tmp_path, limit):
    file = tmp_path / "metrics.jsonl"
    disk.append(file, "one\n")
    limit(6)
    with pytest.raises(NotWrittenError, match=r"metrics.jsonl can't be written: File too large; free space"):
        disk.append(file, "two\n")
    limit(resource.RLIM_INFINITY)
    assert file.read_text(encoding="utf-8") == "one\n"
    disk.append(file, "three\n")
    assert file.read_text(encoding="utf-8") == "one\nthree\n"


def test_a_folder_that_can_not_be_written_is_said_before_anything_is_played(place, small_disk):
    run = small_disk / "run"
    for folder in (run, run / "games", run / "checkpoints"):
        folder.mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(ValueError, match=rf"{run} can't be written .*choose another --ckpt.output_dir"):
        train(place, str(run))
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert not [path for path in run.rglob("*") if path.is_file()]


def test_a_reader_never_sees_a_broken_line_while_lines_are_added(tmp_path):
    file = tmp_path / "metrics.jsonl"
    rows = [{"step": step, "text": "x" * (1000 + step % 700)} for step in range(300)]
    writer = threading.Thread(target=lambda: [disk.append(file, json.dumps(row) + "\n") for row in rows])
    writer.start()
    seen, looks = 0, 0
    while writer.is_alive() or not looks:
        found = disk.read_log(file)
        assert found == rows[: len(found)]
        assert len(found) >= seen
        seen, looks = len(found), looks + 1
    writer.join()
    assert disk.read_log(file) == rows
    assert looks > 3


def test_a_line_that_is_not_ended_is_not_there_yet(tmp_path):
    file = tmp_path / "metrics.jsonl"
    assert disk.read_log(file) == []
    file.write_text('{"step": 1}\n{"step": 2}', encoding="utf-8")
    assert disk.read_log(file) == [{"step": 1}]


def test_a_config_is_seen_as_it_was_or_as_it_will_be(tmp_path, limit):
    file = tmp_path / "config.json"
    disk.write_whole(file, "old")
    limit(3)
    with pytest.raises(NotWrittenError):
        disk.write_whole(file, "newer")
    limit(resource.RLIM_INFINITY)
    assert file.read_text(encoding="utf-8") == "old"
    disk.mend(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("left", "found"),
    [
        (["final", ".final.partial"], {"final": "final"}),
        (["final", ".final.replaced"], {"final": "final"}),
        ([".final.replaced"], {"final": ".final.replaced"}),
        ([".final.partial", ".final.replaced"], {"final": ".final.replaced"}),
        ([".final.removed"], {}),
        ([".git", ".notes.txt"], {".git": ".git", ".notes.txt": ".notes.txt"}),
    ],
)
def test_what_a_killed_process_left_is_cleared_away_and_nothing_else(tmp_path, left, found):
    for name in left:
        (tmp_path / name).mkdir()
        (tmp_path / name / "was").write_text(name, encoding="utf-8")
    disk.mend(tmp_path)
    assert {path.name: (path / "was").read_text(encoding="utf-8") for path in tmp_path.iterdir()} == found


def test_a_folder_that_is_made_anew_takes_the_place_of_the_old_one_at_once(tmp_path):
    place = tmp_path / "final"
    for text in ("old", "new"):
        with disk.new_folder(place) as folder:
            (folder / "file").write_text(text, encoding="utf-8")
            assert not place.exists() or (place / "file").read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["final"]
    assert (place / "file").read_text(encoding="utf-8") == "new"
    with pytest.raises(ZeroDivisionError), disk.new_folder(place):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def damaged(place, name, harm):
    """A copy of the whole run, a file of whose last checkpoint is harmed."""
    shutil.copytree(place / "whole", place / "run")
    harm(place / "run" / "checkpoints" / "step_6" / name)


def cut(file):
    file.write_bytes(file.read_bytes()[:-100])


def scribble(file):
    size = file.stat().st_size
    file.write_bytes(b"\xff" * size)


@pytest.mark.parametrize(
    ("name", "harm", "why"),
    [
        ("trainer_state.pt", cut, r"has \d+ of \d+ bytes"),
        ("model.safetensors", cut, r"has \d+ of \d+ bytes"),
        pytest.param("model.safetensors", lambda file: file.unlink(), r"has 0 of \d+ bytes", marks=pytest.mark.slow),
        ("trainer_state.pt", scribble, "can't be read"),
        ("progress.json", cut, "can't be read"),
        pytest.param("progress.json", scribble, "can't be read", marks=pytest.mark.slow),
        pytest.param("progress.json", lambda file: file.write_text("[]"), "can't be read", marks=pytest.mark.slow),
        ("progress.json", lambda file: file.unlink(), "can't be read"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_without_it_the_run_goes_on_from_the_one_before(place, run, name, harm, why):
    damaged(place, name, harm)
    before = (run / "metrics.jsonl").read_bytes()
    step_6 = run / "checkpoints" / "step_6"
    config = tiny_runs.config_of(place, place / "model", ckpt={"load_enable": True})
    with pytest.raises(ValueError, match=rf"{name} {why}.*damaged: remove {step_6} to go on from step_5$"):
        tiny_runs.run(config)
    assert (run / "metrics.jsonl").read_bytes() == before
    shutil.rmtree(step_6)
    tiny_runs.run(config)
    assert tiny_runs.made(run) == tiny_runs.made(place / "whole")


def test_the_only_checkpoint_when_damaged_is_to_be_removed_to_begin_again(place, run):
    tiny_runs.run(tiny_runs.config_of(place, place / "model", train={"iterations": 1}))
    cut(run / "checkpoints" / "step_1" / "trainer_state.pt")
    with pytest.raises(ValueError, match=r"remove .*step_1 to begin again$"):
        tiny_runs.run(tiny_runs.config_of(place, place / "model", ckpt={"load_enable": True}))


def test_folders_with_other_names_beside_the_checkpoints_are_left_alone(place, run):
    shutil.copytree(place / "whole", run)
    for name in ("step_5 (copy)", "step_best", "notes"):
        (run / "checkpoints" / name).mkdir()
    tiny_runs.run(tiny_runs.config_of(place, place / "model", ckpt={"load_enable": True, "max_num": 1}))
    assert checkpoints(run) == ["notes", "step_5 (copy)", "step_6", "step_best"]


def test_a_checkpoint_without_a_config_is_a_run_that_is_not_begun_over(place, run):
    shutil.copytree(place / "whole", run)
    for name in ("config.json", "metrics.jsonl"):
        (run / name).unlink()
    with pytest.raises(ValueError, match="holds a run already"):
        RunFolder(tiny_runs.config_of(place, place / "model").ckpt)


def games(run):
    return sorted(path.name for path in (run / "games").iterdir())


@pytest.mark.parametrize("save_steps", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_games_of_the_last_iterations_are_kept_and_can_be_replayed(place, run, capsys, save_steps):
    ckpt = {"save_steps": save_steps, "games_max_num": 2}
    tiny_runs.run(tiny_runs.config_of(place, place / "model", ckpt=ckpt, eval={"steps": 2}))
    evaluations = [
        "eval_000002.jsonl",
        "eval_000004.jsonl",
        "eval_000006.jsonl",
        "eval_after.jsonl",
        "eval_before.jsonl",
    ]
    assert games(run) == [*evaluations, *(f"step_{step:06d}.jsonl" for step in (5, 6))]
    made, whole = tiny_runs.made(run), tiny_runs.made(place / "whole")
    assert all(whole[name] == made[name] for name in whole if name in made)
    assert replay([str(run), "--list"]) == 0
    said = capsys.readouterr().out
    assert "42/6/0" in said
    assert "42/1/0" not in said


def test_games_a_resumed_run_may_need_are_kept_until_the_next_checkpoint(place, run):
    ckpt = {"save_steps": 4, "games_max_num": 1}
    tiny_runs.run(tiny_runs.config_of(place, place / "model", ckpt=ckpt, train={"iterations": 4}))
    assert games(run)[2:] == ["step_000004.jsonl"]
    tiny_runs.run(tiny_runs.config_of(place, place / "model", ckpt={**ckpt, "games_max_num": 3, "load_enable": True}))
    assert games(run)[2:] == ["step_000004.jsonl", "step_000005.jsonl", "step_000006.jsonl"]
    tiny_runs.run(tiny_runs.config_of(place, place / "model", ckpt={**ckpt, "load_enable": True}))
    assert games(run)[2:] == ["step_000006.jsonl"], "a run that had ended is pruned, too"
