"""Processes killed at seeded random moments go on to the bytes of one that never was, and leave nothing behind."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="the policy imports it")
pytest.importorskip("resource", reason="limits the length of files, on Unix")

from tests.trainers import tiny_runs
from tests.trainers.embedded.killed_runs import Act, Kill, Trainings

pytestmark = pytest.mark.slow

SEED = 20260
KINDS = {  # of moments: what is about to be done, to which file
    "log": r"open (metrics|timings|evaluations)\.jsonl",
    "games": r"open games/",
    "config": r"(open|os\.rename) \.config",
    "checkpoint begins": r"os\.mkdir checkpoints/\.step_",
    "checkpoint's files": r"open checkpoints/\.step_",
    "checkpoint appears": r"os\.rename checkpoints/\.step_\d+\.partial",
    "checkpoint goes": r"os\.rename checkpoints/step_",
    "checkpoint's files go": r"os\.(remove|rmdir) ([a-z_]+\.[a-z]+$|checkpoints/\.step_\d+\.removed)",
    "games go": r"os\.remove games/",
    "final": r"(os\.mkdir|open|os\.rename) \.final",
}
IN_PLAY = [("playing held-out games before training", 1), *(("playing", step) for step in (1, 2, 3))]
IN_UPDATE = [("updating", step) for step in (1, 2, 3)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model made in another process: this one stays without threads for the server to inherit."""
    place = tmp_path_factory.mktemp("runs")
    make = "import sys, pathlib; from tests.trainers import tiny_world; tiny_world.model_folder(pathlib.Path(sys.argv[1]), steps=20)"
    paths = [str(Path(__file__).parents[3])]
    script = f"import sys; sys.path[:0] = {paths}; {make}"
    subprocess.run([sys.executable, "-c", script, str(place / "model")], check=True, capture_output=True)
    return place


@pytest.fixture(scope="module")
def trainings(place):
    return Trainings(place)


def settings(place, output="run", **groups):
    """Three iterations of one game; checkpoints, evaluations and pruning at every chance."""
    return tiny_runs.settings(
        place,
        place / "model",
        output,
        algo={"kl": {"init_coef": 0.0}},
        rollout={"batch_size": 1},
        train={"iterations": 3},
        eval={"games": 1, "steps": 2},
        ckpt={"load_enable": True, "save_steps": 1, "max_num": 2, "games_max_num": 2, **groups},
    )


@pytest.fixture(scope="module")
def whole(place, trainings):
    """What an uninterrupted run makes, and what it does to files on the way."""
    assert trainings.run(settings(place, "whole"), acts=place / "acts") == 0
    acts = [Act(*act) for act in json.loads((place / "acts").read_text(encoding="utf-8"))]
    return everything(place / "whole"), acts


@pytest.fixture
def run(place):
    yield place / "run"
    shutil.rmtree(place / "run", ignore_errors=True)


def everything(folder):
    """All files of a run, without what depends on the clock and on where it lies."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    files["timings.jsonl"] = repr([json.loads(line)["step"] for line in files["timings.jsonl"].splitlines()]).encode()
    for name in [name for name in files if re.search(r"(^|/)(config|progress).json$", name)]:
        row = json.loads(files[name])
        if "config" in row:
            del row["config"]["ckpt"]
            files[name] = json.dumps(row).encode()
    return files


def assert_goes_on_to_the_same(trainings, place, whole):
    assert trainings.run(settings(place)) == 0
    found = everything(place / "run")
    assert found.keys() == whole.keys()
    assert [name for name in whole if found[name] != whole[name]] == []


def kind_of(act):
    return next((kind for kind, pattern in KINDS.items() if re.match(pattern, f"{act.what} {act.file}")), None)


def moments(acts, rng, a_kind, more):
    """Numbers of acts, from 1: some of every kind, and ``more`` anywhere."""
    by_kind = {}
    for number, act in enumerate(acts, start=1):
        by_kind.setdefault(kind_of(act), []).append(number)
    assert by_kind.keys() >= KINDS.keys()
    chosen = {number for kind in KINDS for number in rng.sample(by_kind[kind], min(a_kind, len(by_kind[kind])))}
    return sorted(chosen | set(rng.sample(sorted(set(range(1, len(acts) + 1)) - chosen), more)))


def test_a_run_killed_between_any_two_acts_on_its_files_goes_on_to_the_same(place, trainings, whole, run):
    made, acts = whole
    chosen = moments(acts, Random(SEED), a_kind=2, more=14)
    assert len(chosen) >= 33
    for number in chosen:
        assert trainings.run(settings(place), Kill(number)) == -signal.SIGKILL, acts[number - 1]
        assert_goes_on_to_the_same(trainings, place, made)
        shutil.rmtree(run)


def test_a_run_killed_in_the_middle_of_a_write_goes_on_to_the_same(place, trainings, whole, run):
    made, acts = whole
    rng = Random(SEED)
    hit = Counter()
    for pattern, longest in {
        r"open metrics": 900,
        r"open evaluations": 200,
        r"open games/step_": 1500,
        r"open games/eval_": 1500,
        r"open checkpoints/.*progress.json": 2000,
        r"open checkpoints/.*trainer_state.pt": 500_000,
        r"os.mkdir checkpoints/.step_2": 200_000,
        r"os.mkdir .final": 200_000,
    }.items():
        numbers = [n for n, act in enumerate(acts, start=1) if re.match(pattern, f"{act.what} {act.file}")]
        kill = Kill(rng.choice(numbers), into=rng.randrange(1, longest))
        assert trainings.run(settings(place), kill) == -signal.SIGXFSZ, (pattern, kill)
        hit[pattern] += 1
        assert_goes_on_to_the_same(trainings, place, made)
        shutil.rmtree(run)


def test_a_run_killed_while_it_plays_or_updates_goes_on_to_the_same(place, trainings, whole, run):
    made, _ = whole
    rng = Random(SEED)
    found = Counter()
    for doing, time_in in [*IN_PLAY * 3, *IN_UPDATE * 3]:
        at = trainings.killed_while(settings(place), doing, time_in, delay=rng.uniform(0, 0.03))
        found[at] += 1
        assert_goes_on_to_the_same(trainings, place, made)
        shutil.rmtree(run)
    assert found["playing"] >= 3
    assert found["updating"] >= 3
    assert found[None] == 0, "no run ended before it was killed"


def test_a_run_killed_again_and_again_also_while_it_goes_on_ends_the_same(place, trainings, whole, run):
    made, acts = whole
    first = next(n for n, act in enumerate(acts, start=1) if act.file == ".final.partial")
    assert trainings.run(settings(place), Kill(first)) == -signal.SIGKILL
    killed = 0
    for later in [*range(1, 7), 9, 13, 16]:  # clearing away, cutting, and what follows
        shutil.rmtree(run / "checkpoints" / "step_3", ignore_errors=True)  # there is always an iteration to repeat
        (run / "checkpoints" / ".step_3.partial").mkdir(exist_ok=True)
        killed += trainings.run(settings(place), Kill(later)) == -signal.SIGKILL
    assert killed == 9
    assert_goes_on_to_the_same(trainings, place, made)
