"""TRL's trainer learns detection in the tiny world, and nothing where the advantages are dealt out at random."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")

import tiny_runs
from tiny_learning import LEARNED, detection_accuracy
from tiny_world import RULES, HalfScripted, model_folder, say_whether_anything_is_hidden
from trl_runs import games_in, games_of, trainer_of

from spy_env import Stage
from trainers.shared_flags import Data
from trainers.trl.config import check_version

pytestmark = pytest.mark.trl
GAMES, REFEREES, STEPS = 32, 16, 250


@pytest.fixture(autouse=True, scope="module")
def _real_trl():
    try:
        check_version()
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("learning")
    tiny_runs.write_corpus(place / "documents.jsonl", 2000)
    model_folder(place / "model")
    return place


def accuracies(place, output, steps, **game):
    """Of the games of each step, until all is learned."""
    from transformers import TrainerCallback

    settings = games_of(place, schedule="detection", voters="referees", referees=REFEREES, **game)
    settings = replace(settings, data=Data(settings.data.documents, max_len=90), micro_batch_size=512)
    sizes = {"per_device_train_batch_size": GAMES * REFEREES, "num_generations": REFEREES, "max_steps": steps}
    trainer = trainer_of(place, output, games=settings, save_strategy="no", adam_beta2=0.95, logging_steps=50, **sizes)
    engine = HalfScripted(trainer.seating.engine, say_whether_anything_is_hidden, learned=Stage.DETECTION)
    trainer.seating = replace(trainer.seating, engine=engine)
    scores = []

    class Scoring(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            scores.append(detection_accuracy(games_in(place / output, state.global_step)))
            control.should_training_stop = sum(scores[-10:]) / 10 >= LEARNED

    trainer.add_callback(Scoring())
    trainer.train()
    return scores


def test_detectors_learn_to_find_the_spy(place):
    scores = accuracies(place, "learned", STEPS)
    print(len(scores), scores)
    assert scores[0] == pytest.approx(1 / RULES.players, abs=0.1)  # chance
    assert sum(scores[-10:]) / 10 >= 0.9


def test_shuffled_advantages_teach_nothing(place):
    scores = accuracies(place, "shuffled", 150, shuffle_advantages=True)
    assert sum(scores[-10:]) / 10 < 0.4
