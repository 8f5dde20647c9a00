"""The doors pass the tests that PettingZoo and Gymnasium ship, for every voter rule."""

import copy
import functools
import pickle
import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test

from spy_env import spy_v0, to_json
from spy_env.seat_view import SeatEnv
from tests.spy_env.doors import ECHOES, VOTERS, dealt, play_aec, play_parallel, rules, started

# PettingZoo expects numbers; text can't avoid these three. Everything else is an error.
NOT_NUMBERS = (
    "Observation is not a NumPy array",
    r"Observation space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete",
    r"Action space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete",
)
CYCLES = 30

pytestmark = pytest.mark.parametrize("voters", VOTERS)
each_aec_door = pytest.mark.parametrize("door", [spy_v0.env, spy_v0.raw_env])
each_door = pytest.mark.parametrize("door", [spy_v0.env, spy_v0.raw_env, spy_v0.parallel_env])


@pytest.fixture(autouse=True)
def every_other_warning_is_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message in NOT_NUMBERS:
            warnings.filterwarnings("ignore", message, UserWarning)
        yield


def made(door, voters, **more):
    return functools.partial(door, rules=rules(voters), **more)


@each_aec_door
def test_pettingzoos_api_test_passes(door, voters):
    api_test(made(door, voters)(), num_cycles=CYCLES)


def test_pettingzoos_parallel_api_test_passes(voters):
    parallel_api_test(made(spy_v0.parallel_env, voters)(), num_cycles=CYCLES)


@each_aec_door
def test_pettingzoos_seed_test_passes(door, voters):
    seed_test(made(door, voters), num_cycles=CYCLES)


def test_pettingzoos_parallel_seed_test_passes(voters):
    parallel_seed_test(made(spy_v0.parallel_env, voters), num_cycles=CYCLES)


@each_aec_door
def test_pettingzoos_render_test_passes(door, voters):
    render_test(made(door, voters))


def test_human_rendering_prints_what_ansi_returns(voters, capsys):
    game = dealt(voters)
    printing, returning = (started(spy_v0.raw_env, game, render_mode=mode) for mode in ("human", "ansi"))
    play_aec(printing, ECHOES)
    play_aec(returning, ECHOES)
    assert printing.render() is None
    assert capsys.readouterr().out.endswith(returning.render() + "\n")


def play_half(env):
    """To the middle of the vote."""
    env.reset(seed=5)
    if hasattr(env, "agent_iter"):
        for agent in env.agent_iter(len(env.possible_agents) + 2):
            env.step(ECHOES[agent](env.observe(agent)["prompt"]))
    else:
        env.step({agent: ECHOES[agent]("") for agent in env.agents})


def play_on(env):
    return (play_aec if hasattr(env, "agent_iter") else play_parallel)(env, ECHOES)


@each_door
@pytest.mark.parametrize(
    "copied", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy], ids=["pickle", "deepcopy"]
)
def test_a_copy_taken_in_the_middle_of_a_game_plays_on_as_the_original_does(door, voters, copied):
    original = made(door, voters)()
    play_half(original)
    twin = copied(original)
    game, rewards, infos = play_on(twin)
    assert original.unwrapped.game.stage == "detection"  # the copy has its own state
    same_game, same_rewards, same_infos = play_on(original)
    assert to_json(game) == to_json(same_game)
    assert (rewards, infos) == (same_rewards, same_infos)
    for env in (original, twin):
        env.reset()
    assert to_json(original.unwrapped.game) == to_json(
        twin.unwrapped.game
    )  # and its own stream of games, at the same place


@each_door
def test_spaces_are_the_same_for_every_agent_and_built_once(door, voters):
    env = made(door, voters)()
    env.reset(seed=0)
    first = env.possible_agents[0]
    for agent in env.possible_agents:
        assert env.observation_space(agent) == env.observation_space(first)
        assert env.action_space(agent) == env.action_space(first)
        assert env.observation_space(agent) is env.observation_space(agent)


@pytest.mark.parametrize("place", ["first", "last"])  # the last is a referee where there are some
def test_gymnasiums_check_env_passes(voters, place):
    seat = made(spy_v0.raw_env, voters)().possible_agents[{"first": 0, "last": -1}[place]]
    gymnasium.register("SpySeat-v0", SeatEnv, order_enforce=False, disable_env_checker=True)
    try:
        env = gymnasium.make("SpySeat-v0", seat=seat, rules=rules(voters), render_mode="ansi")
        check_env(env.unwrapped)
    finally:
        gymnasium.registry.pop("SpySeat-v0")
