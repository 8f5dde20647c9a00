"""Two hundred iterations: nothing grows but the files that are asked for."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="the policy imports it")
pytest.importorskip("tensorboard", reason="its queue must not grow")

from tests.trainers import tiny_runs, tiny_world
from trainers.embedded.display import Display
from trainers.embedded.loop import Clock

STATM = Path("/proc/self/statm")
PAGE = 4096


class Measuring(Display):
    """Resident bytes and Python objects after an iteration, by iteration."""

    found: dict[int, tuple[int, int]] = {}  # noqa: RUF012 - of the one run that is measured

    def step(self, step, *about):
        super().step(step, *about)
        if step % 10 == 0:
            gc.collect()
            self.found[step] = (int(STATM.read_text().split()[1]) * PAGE, len(gc.get_objects()))


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="reads the memory of the process from /proc")
def test_memory_is_flat_from_iteration_50_to_200(tmp_path):
    tiny_world.model_folder(tmp_path / "model", steps=20)
    config = tiny_runs.config_of(
        tmp_path,
        tmp_path / "model",
        rollout={"batch_size": 1},
        train={"iterations": 200},
        eval={"games": 1, "steps": 50},
        ckpt={"save_steps": 25, "max_num": 2, "games_max_num": 10},
        logger={"tensorboard_dir": str(tmp_path / "board")},
    )
    tiny_runs.run(config, Measuring)
    # Resident memory goes up and down by some megabytes with what the allocator gives back: peaks are compared.
    (memory, objects), (memory_later, objects_later) = (
        map(max, zip(*(Measuring.found[step] for step in steps), strict=True))
        for steps in (range(50, 121, 10), range(130, 201, 10))
    )
    print(f"{memory_later - memory} bytes, {objects_later - objects} objects more in 80 iterations")
    assert memory_later - memory < 1_000_000
    assert objects_later - objects < 160  # two an iteration
    assert len(list((tmp_path / "run" / "games").glob("step_*"))) == 10
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 2


@pytest.fixture
def clock(monkeypatch):
    """A clock of ten minutes that began at 0, and how to move time on."""
    now = [0.0]
    monkeypatch.setattr("trainers.embedded.loop.time.monotonic", lambda: now[0])
    return Clock(10.0), lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_time_is_kept_for_the_evaluation_after_training_also_where_the_one_before_was_only_read(clock):
    ten_minutes, passes = clock
    passes(5.0)  # reading
    ten_minutes.start_training(evaluation=200.0)
    assert not ten_minutes.late(0), "one iteration is always done"
    for done in (1, 2, 3):
        passes(100.0)
        assert ten_minutes.late(done) == (5 + 100 * (done + 1) + 200 > 600)
    assert ten_minutes.left(3, 10) == 600 - 305
    assert ten_minutes.left(3, 0) == 200.0


def test_a_resumed_run_knows_how_long_the_games_before_training_took(tmp_path, monkeypatch):
    tiny_world.model_folder(tmp_path / "model", steps=20)
    told = []
    monkeypatch.setattr(Clock, "start_training", lambda self, evaluation: told.append(evaluation))
    config = tiny_runs.config_of(tmp_path, tmp_path / "model", train={"iterations": 1})
    tiny_runs.run(config)
    tiny_runs.run(
        tiny_runs.config_of(tmp_path, tmp_path / "model", ckpt={"load_enable": True}, train={"iterations": 2})
    )
    assert told[0] == told[1] > 0
