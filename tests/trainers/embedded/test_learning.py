"""Learning through the real code: the policy, rollouts, curriculum and update, on a world small enough for a minute."""

import pytest

torch = pytest.importorskip("torch", reason="learning needs the train extra")

from spy_env import Stage  # noqa: E402
from tests.trainers.embedded.tiny_learning import config_for, learn  # noqa: E402 - after the check that torch is there
from tests.trainers.tiny_world import RULES, model_folder  # noqa: E402

pytestmark = pytest.mark.slow
ITERATIONS = {Stage.DETECTION: 250, Stage.PERFORMING: 40}


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    torch.set_num_threads(1)
    return str(model_folder(tmp_path_factory.mktemp("tiny")))


def first_and_last(folder, stage, **switches):
    """The score of the first iteration, and the mean of the last ten."""
    scores = learn(folder, stage, config_for(stage, **switches), ITERATIONS[stage])
    return scores[0], sum(scores[-10:]) / 10


def test_detectors_learn_to_find_the_spy(untrained):
    before, after = first_and_last(untrained, Stage.DETECTION)
    assert before == pytest.approx(1 / RULES.players, abs=0.1)  # chance
    assert after >= 0.9


def test_performers_learn_to_write_what_detectors_look_for(untrained):
    before, after = first_and_last(untrained, Stage.PERFORMING)
    assert before < 0.3
    assert after > 0.9


@pytest.mark.parametrize(("stage", "most"), [(Stage.DETECTION, 0.4), (Stage.PERFORMING, 0.5)])
def test_shuffled_advantages_teach_nothing(untrained, stage, most):
    _, after = first_and_last(untrained, stage, shuffle_advantages=True)
    assert after < most
