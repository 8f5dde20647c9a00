"""One stage learned through the real code, in the tiny world, while the other is played by script."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from spy_env import Game, Stage
from tests.trainers.tiny_world import (
    MARK,
    RULES,
    TASK,
    HalfScripted,
    documents,
    say_whether_anything_is_hidden,
    vote_for_one_without_the_mark,
)
from trainers.config import Actor, Adam, Algo, Config, Data, GameConfig, Kl, Rollout, Train
from trainers.embedded.loop import deal_games, update
from trainers.embedded.policy import policy_of
from trainers.rollout import SeatPolicies, rollout

SCRIPTS = {Stage.DETECTION: say_whether_anything_is_hidden, Stage.PERFORMING: vote_for_one_without_the_mark}
VOTERS = {Stage.DETECTION: {"voters": "referees", "referees": 16}, Stage.PERFORMING: {"voters": "all"}}

LEARNED = 0.95


def config_for(stage: Stage, seed: int = 42, **switches: bool) -> Config:
    """One stage alone."""
    game = {"task": TASK, "players": RULES.players, "unreadable": -1.0, **VOTERS[stage]}
    return Config(
        game=GameConfig(**game),
        actor=Actor(adam=Adam(lr=1e-3)),
        algo=Algo(schedule=str(stage), kl=Kl(0.02), **switches),
        rollout=Rollout(batch_size=32, n_samples_per_prompt=RULES.players, max_new_tokens=4, micro_batch_size=512),
        train=Train(micro_batch_size=512, seed=seed),
        data=Data(max_len=90),
    )


def detection_accuracy(games: Sequence[Game]) -> float:
    """The share of right votes."""
    right = [vote == game.spy for game in games for seat, vote in game.votes().items() if seat != game.spy]
    return sum(right) / len(right)


def share_with_the_mark(games: Sequence[Game]) -> float:
    """The share of performances that say what the scripted voters look for."""
    marked = [MARK in shown.text.split() for game in games for shown in game.performances().values()]
    return sum(marked) / len(marked)


SCORES = {Stage.DETECTION: detection_accuracy, Stage.PERFORMING: share_with_the_mark}


def learn(folder: str, stage: Stage, config: Config, iterations: int, documents_seed: int = 7) -> list[float]:
    """The score of each iteration's games; ends early when all is learned."""
    score = SCORES[stage]
    policy = policy_of(config, folder)
    seats = SeatPolicies(
        HalfScripted(policy.engine, SCRIPTS[stage], learned=stage), config.sampling, config.data.max_len
    )
    curriculum = config.start_curriculum()
    stream = iter(documents(config.rollout.batch_size * iterations, seed=documents_seed))
    scores = []
    for step in range(iterations):
        games = deal_games(config, list(islice(stream, config.rollout.batch_size)), curriculum, step, seats)
        played = rollout(games, seats)
        update(policy, curriculum, played, config)
        curriculum = curriculum.after([one.game for one in played])
        scores.append(score([one.game for one in played]))
        if sum(scores[-10:]) / 10 >= LEARNED:
            break
    return scores
