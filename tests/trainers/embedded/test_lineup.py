"""Who plays what, from the config alone: roles, what is left to train, and which checkpoint a past opponent is."""

from collections import Counter

import pytest

from spy_env import Stage
from trainers.config import Algo, Config, Eval, GameConfig, OpponentsConfig
from trainers.embedded.lineup import check, drawn_at, pool_at, trains

P, D = Stage.PERFORMING, Stage.DETECTION
REFUSED = {
    "a player nobody knows": ({"spy": "clever"}, {}, r"--opponents.spy: no player 'clever';\na player is one of"),
    "a human": ({"civilian": "human"}, {}, "--opponents.civilian: no player 'human'"),
    "an endpoint without a model": ({"spy": "endpoint:http://localhost/v1"}, {}, "--opponents.spy: .* names no model"),
    "referees where there are none": (
        {"referee": "scripted"},
        {},
        r"--opponents.referee is 'scripted', and with --game.voters all there are no referees; .* --game.voters referees",
    ),
    "everybody": ({"spy": "random", "civilian": "past"}, {}, "nothing is left to train; leave --opponents.spy empty"),
    "everybody and the referees": (
        {"spy": "random", "civilian": "past", "referee": "scripted"},
        {"voters": "referees"},
        "play spy and civilian and referee, .* nothing is left to train",
    ),
    "no pool": ({"pool": 0}, {}, "--opponents.pool is 0; it must be at least 1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_opponents_that_can_not_play_are_refused_with_the_way_out(what):
    opponents, game, message = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        check(Config(game=GameConfig(**game), opponents=OpponentsConfig(**opponents)))


NOTHING_TO_TRAIN = [
    ({"civilian": "scripted"}, "all", D),
    ({"civilian": "scripted"}, "civilians", D),
    ({"referee": "initial"}, "referees", D),
    ({"spy": "past", "referee": "initial"}, "referees", D),
    ({"civilian": "random", "referee": "initial"}, "referees", D),
    ({"spy": "past", "civilian": "past"}, "referees", P),
]


@pytest.mark.parametrize(("opponents", "voters", "empty"), NOTHING_TO_TRAIN)
@pytest.mark.parametrize("schedule", ["hysteresis", "cycle", "joint", "performing", "detection"])
def test_a_stage_that_trains_nothing_is_refused_under_every_schedule_that_comes_to_it(
    opponents, voters, empty, schedule
):
    other = P if empty is D else D

    def config():
        return Config(
            game=GameConfig(voters=voters), algo=Algo(schedule=schedule), opponents=OpponentsConfig(**opponents)
        )

    if schedule == other:
        check(config())
        return
    role, player = next(iter(opponents.items()))
    with pytest.raises(
        ValueError,
        match=f"--opponents.{role} {player}.*--game.voters {voters} .*nothing that {empty} trains, and --algo.schedule {schedule} comes to it; choose --algo.schedule {other}",
    ):
        check(config())


@pytest.mark.parametrize("opponents", [{}, {"spy": "past"}])
@pytest.mark.parametrize("voters", ["all", "civilians", "referees"])
@pytest.mark.parametrize("schedule", ["hysteresis", "cycle", "joint", "performing", "detection"])
def test_an_opponent_who_is_the_spy_leaves_both_stages_to_train(opponents, voters, schedule):
    config = Config(
        game=GameConfig(voters=voters), algo=Algo(schedule=schedule), opponents=OpponentsConfig(**opponents)
    )
    assert config.opponent_of == opponents
    check(config)


def test_the_spys_vote_trains_nothing_and_referees_do_not_perform():
    assert not trains(D, ["spy"], "all")
    assert trains(P, ["spy"], "all")
    assert not trains(P, ["referee"], "referees")
    assert not trains(D, ["civilian", "spy"], "referees")


@pytest.mark.parametrize(
    ("opponent", "games", "message"),
    [
        ("past", 4, r"--eval.opponent: it changes, and a curve needs one that doesn't; no player 'past'"),
        ("human", 4, "--eval.opponent: no player 'human'"),
        ("initial", 0, r"--eval.opponent is 'initial', and --eval.games 0 leaves no games"),
    ],
)
def test_an_opponent_that_can_not_make_a_curve_is_refused(opponent, games, message):
    with pytest.raises(ValueError, match=message):
        check(Config(eval=Eval(games=games, opponent=opponent)))
    check(Config(eval=Eval(games=4, opponent="initial")))


@pytest.mark.parametrize(
    ("step", "pool"),
    [
        *((step, (0,)) for step in (1, 2, 3)),
        *((step, (3,)) for step in (4, 5, 6)),
        *((step, (3, 6)) for step in (7, 9)),
        (10, (6, 9)),
        (13, (9, 12)),
    ],
)
def test_the_pool_is_the_last_checkpoints_that_were_saved_on_schedule_before_the_iteration(step, pool):
    assert pool_at(step, save_steps=3, size=2) == pool


def test_every_member_of_the_pool_is_met_and_the_draw_is_the_seeds_and_the_iterations_alone():
    met = Counter(drawn_at(51, seed, save_steps=10, size=3) for seed in range(600))
    assert set(met) == {30, 40, 50}
    assert min(met.values()) > 150
    of_a_run = [drawn_at(step, 42, 1, 5) for step in range(10, 60)]
    assert of_a_run == [drawn_at(step, 42, 1, 5) for step in range(10, 60)]
    assert all(step - 5 <= drawn < step for step, drawn in zip(range(10, 60), of_a_run, strict=True))
    assert len({step - drawn for step, drawn in zip(range(10, 60), of_a_run, strict=True)}) == 5
    assert drawn_at(1, 42, 1, 5) == 0


@pytest.mark.parametrize("save_steps", [1, 4])
def test_what_is_kept_after_a_checkpoint_is_what_later_iterations_may_meet(save_steps):
    for saved in range(1, 30):
        kept = pool_at(saved + 1, save_steps, 3)
        next_save = (saved // save_steps + 1) * save_steps
        may_meet = {member for step in range(saved + 1, next_save + 1) for member in pool_at(step, save_steps, 3)}
        assert set(kept) == may_meet
