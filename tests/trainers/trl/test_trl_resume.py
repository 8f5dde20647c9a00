"""A run of TRL that was stopped goes on with its curriculum, documents and games; another run's checkpoint is refused."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json
import shutil

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from tests.trainers import tiny_world
from tests.trainers.trl.trl_runs import games_in, games_of, lines_of, trainer_of
from trainers.trl.games import STATE

pytestmark = [pytest.mark.trl, pytest.mark.usefixtures("real_trl")]
STEPS, HALF = 6, 3


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, documents, and an uninterrupted run for each adaptation."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("resumed")
    tiny_world.model_folder(place / "model", steps=60)
    for lora in (False, True):
        trainer_of(place, f"whole-{lora}", lora).train()
    return place


class KilledError(Exception):
    """Stands for the end of the process."""


def killed_in(step, place, output, **args):
    """A run that ends when the loss of ``step`` is to be computed: its games are over, its update isn't done."""
    trainer = trainer_of(place, output, **args)
    compute = trainer.compute_loss

    def compute_loss(*given, **named):
        if trainer.state.global_step == step - 1:
            raise KilledError
        return compute(*given, **named)

    trainer.compute_loss = compute_loss
    with pytest.raises(KilledError):
        trainer.train()
    return place / output


def weights(folder):
    files = sorted(folder.glob("*.safetensors"))
    from safetensors.torch import load_file

    return load_file(files[0])


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("killed", [4, 6])
def test_a_killed_run_goes_on_to_the_games_and_weights_of_one_that_never_was(place, lora, killed):
    output = f"stopped-{lora}-{killed}"
    folder, whole = killed_in(killed, place, output, lora=lora), place / f"whole-{lora}"
    assert [row["step"] for row in lines_of(folder)] == list(range(1, killed))  # nothing of the step that was cut
    assert not (folder / "games" / f"step_{killed:06d}.jsonl").exists()
    before = weights(folder / f"checkpoint-{HALF}")

    trainer_of(place, output, lora).train(resume_from_checkpoint=True)
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    for step in range(1, STEPS + 1):
        assert games_in(folder, step) == games_in(whole, step)
    states = [json.loads((run / f"checkpoint-{STEPS}" / STATE).read_text()) for run in (folder, whole)]
    assert states[0] == states[1]
    after, expected = weights(folder / f"checkpoint-{STEPS}"), weights(whole / f"checkpoint-{STEPS}")
    assert any(not torch.equal(before[name], expected[name]) for name in expected)
    for name, value in expected.items():
        torch.testing.assert_close(after[name], value, rtol=0, atol=1e-6)


def test_a_run_killed_before_its_first_checkpoint_begins_again(place):
    folder = killed_in(3, place, "early")
    trainer_of(place, "early", max_steps=3).train(resume_from_checkpoint=True)
    assert [games_in(folder, step) for step in (1, 2, 3)] == [games_in(place / "whole-False", i) for i in (1, 2, 3)]


def test_an_older_checkpoint_may_be_named_and_what_came_after_it_is_cut(place):
    shutil.copytree(place / "whole-False", place / "older")
    trainer = trainer_of(place, "older", max_steps=4)
    trainer.train(resume_from_checkpoint=str(place / "older" / f"checkpoint-{HALF}"))
    assert [row["step"] for row in lines_of(place / "older")] == [1, 2, 3, 4]
    assert len(list((place / "older" / "games").iterdir())) == 4


def test_a_folder_that_holds_a_run_is_refused_with_the_way_out(place):
    with pytest.raises(ValueError, match=r"holds a run already.*resume_from_checkpoint=True"):
        trainer_of(place, "whole-False").train()


def test_a_run_that_was_made_with_other_settings_does_not_go_on(place):
    changed = games_of(place, beta=0.5)
    with pytest.raises(ValueError, match=r"made with game\.beta None, and now it is 0\.5"):
        trainer_of(place, "whole-False", games=changed).train(resume_from_checkpoint=True)
    changed = games_of(place, {"cycle": (1, 1)})
    with pytest.raises(ValueError, match=r"made with algo\.cycle \[2, 1\], and now it is \[1, 1\]"):
        trainer_of(place, "whole-False", games=changed).train(resume_from_checkpoint=True)
    with pytest.raises(ValueError, match="made with seed 42, and now it is 1"):
        trainer_of(place, "whole-False", seed=1).train(resume_from_checkpoint=True)
    assert len(lines_of(place / "whole-False")) == STEPS


@pytest.mark.parametrize("spoil", ["gone", "cut"])
def test_a_checkpoint_without_its_curriculum_is_refused_with_the_way_out(place, spoil):
    shutil.copytree(place / "whole-False" / f"checkpoint-{HALF}", checkpoint := place / spoil / f"checkpoint-{HALF}")
    file = checkpoint / STATE
    if spoil == "gone":
        file.unlink()
    else:
        file.write_text(file.read_text()[:100])
    with pytest.raises(ValueError, match=r"curriculum\.json can't be read.*an older checkpoint"):
        trainer_of(place, spoil).train(resume_from_checkpoint=True)


def test_a_finished_run_is_not_trained_again(place):
    shutil.copytree(place / "whole-False", place / "finished")
    trainer = trainer_of(place, "finished")
    trainer.train(resume_from_checkpoint=True)
    assert trainer.curriculum.iteration == STEPS
    assert (place / "finished" / "metrics.jsonl").read_bytes() == (place / "whole-False" / "metrics.jsonl").read_bytes()


def test_a_trained_model_does_not_begin_again_from_nothing(place):
    trainer = trainer_of(place, "unsaved", max_steps=1, save_strategy="no")
    trainer.train()
    with pytest.raises(ValueError, match="has trained 1 steps and kept no checkpoint"):
        trainer.train(resume_from_checkpoint=True)
    assert len(lines_of(place / "unsaved")) == 1
