"""Learning through the real code: the policy, rollouts, curriculum and update, on a world small enough for a minute."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import pytest

torch = pytest.importorskip("torch", reason="learning needs the train extra")

from tiny_world import (  # noqa: E402 - after the check that torch is there
    MARK,
    RULES,
    TASK,
    HalfScripted,
    documents,
    model_folder,
    say_whether_anything_is_hidden,
    vote_for_one_without_the_mark,
)

from spy_env import Game, Stage  # noqa: E402
from trainers.embedded.config import Actor, Adam, Algo, Config, Data, GameConfig, Kl, Rollout, Train  # noqa: E402
from trainers.embedded.loop import deal_games, start_curriculum, update  # noqa: E402
from trainers.embedded.policy import Policy  # noqa: E402
from trainers.rollout import Table, play_games  # noqa: E402

pytestmark = pytest.mark.slow
SCRIPTS = {Stage.DETECTION: say_whether_anything_is_hidden, Stage.PERFORMING: vote_for_one_without_the_mark}
VOTERS = {Stage.DETECTION: {"voters": "referees", "referees": 16}, Stage.PERFORMING: {"voters": "all"}}
ITERATIONS = {Stage.DETECTION: 250, Stage.PERFORMING: 40}

LEARNED = 0.95


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    torch.set_num_threads(1)
    return str(model_folder(tmp_path_factory.mktemp("tiny")))


def config_for(stage: Stage, **switches: bool) -> Config:
    game = {"task": TASK, "players": RULES.players, "schedule": str(stage), "unreadable": -1.0, **VOTERS[stage]}
    return Config(
        game=GameConfig(**game, **switches),
        actor=Actor(adam=Adam(lr=1e-3)),
        algo=Algo(Kl(0.02)),
        rollout=Rollout(batch_size=32, n_samples_per_prompt=RULES.players, max_new_tokens=4, micro_batch_size=512),
        train=Train(micro_batch_size=512),
        data=Data(max_len=90),
    )


def learn(folder: str, stage: Stage, score: Callable[[Sequence[Game]], float], **switches: bool) -> tuple[float, float]:
    """The score of the first iteration's games, and the mean over the last ten iterations; ends when all is learned."""
    config = config_for(stage, **switches)
    policy = Policy(config, folder)
    table = Table(HalfScripted(policy.engine, SCRIPTS[stage], learned=stage), config.sampling, config.data.max_len)
    curriculum = start_curriculum(config)
    stream = iter(documents(config.rollout.batch_size * ITERATIONS[stage], seed=7))
    scores = []
    for step in range(ITERATIONS[stage]):
        games = deal_games(config, list(islice(stream, config.rollout.batch_size)), curriculum, step, table)
        played = play_games(games, table)
        update(policy, curriculum, played, config)
        curriculum = curriculum.after([one.game for one in played])
        scores.append(score([one.game for one in played]))
        if sum(scores[-10:]) / 10 >= LEARNED:
            break
    return scores[0], sum(scores[-10:]) / 10


def detection_accuracy(games: Sequence[Game]) -> float:
    right = [vote == game.spy for game in games for seat, vote in game.votes().items() if seat != game.spy]
    return sum(right) / len(right)


def share_with_the_mark(games: Sequence[Game]) -> float:
    marked = [MARK in shown.text.split() for game in games for shown in game.performances().values()]
    return sum(marked) / len(marked)


def test_detectors_learn_to_find_the_spy(untrained):
    before, after = learn(untrained, Stage.DETECTION, detection_accuracy)
    assert before == pytest.approx(1 / RULES.players, abs=0.1)  # chance
    assert after >= 0.9


def test_performers_learn_to_write_what_detectors_look_for(untrained):
    before, after = learn(untrained, Stage.PERFORMING, share_with_the_mark)
    assert before < 0.3
    assert after > 0.9


CONTROLS: Mapping[Stage, tuple[Callable[[Sequence[Game]], float], float]] = {
    Stage.DETECTION: (detection_accuracy, 0.4),
    Stage.PERFORMING: (share_with_the_mark, 0.5),
}


@pytest.mark.parametrize("stage", CONTROLS)
def test_shuffled_advantages_teach_nothing(untrained, stage):
    score, most = CONTROLS[stage]
    _, after = learn(untrained, stage, score, shuffle_advantages=True)
    assert after < most
