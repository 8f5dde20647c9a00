"""TRL's trainer learns in the tiny world, and nothing where the advantages are dealt out at random."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")

from spy_env import Stage
from tests.trainers import tiny_runs
from tests.trainers.embedded.tiny_learning import LEARNED, SCORES, SCRIPTS, VOTERS
from tests.trainers.tiny_world import HalfScripted, model_folder
from tests.trainers.trl.trl_runs import games_in, games_of, trainer_of
from trainers.config import Data

pytestmark = [pytest.mark.trl, pytest.mark.usefixtures("real_trl")]
GAMES = 32
STEPS = {Stage.PERFORMING: 40, Stage.DETECTION: 250}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("learning")
    tiny_runs.write_corpus(place / "documents.jsonl", 2000)
    model_folder(place / "model")
    return place


def scores_of(place, output, stage, **switches):
    """The score of each step's games, the other stage played by script; ends early when all is learned."""
    from transformers import TrainerCallback

    settings = games_of(place, schedule=str(stage), **VOTERS[stage], **switches)
    settings = replace(settings, data=Data(settings.data.documents, max_len=90), micro_batch_size=512)
    rows = settings.rows_a_game
    sizes = {"per_device_train_batch_size": GAMES * rows, "num_generations": rows, "max_steps": STEPS[stage]}
    loss = {"beta": 0.02, "use_bias_correction_kl": False, "adam_beta2": 0.95}
    trainer = trainer_of(place, output, games=settings, save_strategy="no", logging_steps=50, **sizes, **loss)
    trainer.seating = replace(
        trainer.seating, engine=HalfScripted(trainer.seating.engine, SCRIPTS[stage], learned=stage)
    )
    scores = []

    class Scoring(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            scores.append(SCORES[stage](games_in(place / output, state.global_step)))
            control.should_training_stop = sum(scores[-10:]) / 10 >= LEARNED

    trainer.add_callback(Scoring())
    trainer.train()
    return scores


def test_performers_learn_to_write_what_detectors_look_for(place):
    scores = scores_of(place, "performing", Stage.PERFORMING)
    assert scores[0] < 0.3
    assert sum(scores[-10:]) / 10 > 0.9


def test_shuffled_advantages_teach_nothing(place):
    scores = scores_of(place, "shuffled", Stage.PERFORMING, shuffle_advantages=True)
    assert sum(scores[-10:]) / 10 < 0.5


@pytest.mark.slow
def test_detectors_learn_to_find_the_spy(place):
    scores = scores_of(place, "detection", Stage.DETECTION)
    assert scores[0] == pytest.approx(0.25, abs=0.1)  # chance
    assert sum(scores[-10:]) / 10 >= 0.9
