"""One seat's view: how long its episodes are, and that it earns what it earns at the full table."""

from dataclasses import replace

import pytest

from spy_env import Stage, spy_v0, to_json
from spy_env.players import scripted_player
from spy_env.seat_view import SeatEnv
from tests.spy_env.doors import ECHOES, SEATS, VOTERS, DealtTable, dealt, document, play_aec, rules, started

# voters, seat, spy -> the stages in which the seat acts
EPISODES = [
    ("all", "player_1", "player_2", ["performing", "detection"]),
    ("all", "player_2", "player_2", ["performing", "detection"]),
    ("all", "player_4", "player_2", ["performing", "detection"]),
    ("civilians", "player_1", "player_2", ["performing", "detection"]),
    ("civilians", "player_4", "player_2", ["performing", "detection"]),
    ("civilians", "player_1", "player_1", ["performing"]),
    ("civilians", "player_4", "player_4", ["performing"]),
    ("referees", "player_1", "player_2", ["performing"]),
    ("referees", "player_2", "player_2", ["performing"]),
    ("referees", "referee_1", "player_2", ["detection"]),
    ("referees", "referee_3", "player_2", ["detection"]),
]
every_episode = pytest.mark.parametrize(("voters", "seat", "spy", "stages"), EPISODES)


def seated(seat, game, others=ECHOES):
    env = SeatEnv(seat, others=others, rules=game.rules, documents=[game.document])
    env.table = DealtTable(game, render_mode="ansi")
    return env


def episode(env, player):
    """What each ``step`` returned, the prompts played on, and the last step's reward."""
    observation, info = env.reset()
    prompts, steps = [], []
    while not steps or not steps[-1][2]:
        assert not info["idle"]
        prompts.append(observation["prompt"])
        steps.append(env.step(player(observation["prompt"])))
        observation, _, _, _, info = steps[-1]
    return prompts, steps


@every_episode
def test_an_episode_has_one_step_for_each_stage_in_which_the_seat_acts(voters, seat, spy, stages):
    env = seated(seat, replace(dealt(voters), spy=spy))
    _, info = env.reset()
    acted, over = [], False
    while not over:
        acted.append(info["stage"])
        _, reward, over, truncated, info = env.step(ECHOES[seat]("x"))
        assert not truncated
        assert over or reward == 0
    assert acted == stages
    assert info["stage"] == "over"


@every_episode
def test_a_seat_sees_and_earns_what_it_does_at_the_full_table(voters, seat, spy, stages):
    game = replace(dealt(voters), spy=spy)
    env = seated(seat, game)
    prompts, steps = episode(env, ECHOES[seat])
    played, rewards, infos = play_aec(started(spy_v0.env, game), ECHOES)
    assert to_json(env.table.game) == to_json(played)
    assert steps[-1][1] == rewards[seat]
    assert steps[-1][4] == infos[seat]
    assert len(prompts) == len(stages)
    for stage, prompt in zip(stages, prompts, strict=True):
        said = played.replies[Stage(stage)][seat].text
        assert ECHOES[seat](prompt) == said  # an echo of the same prompt


@pytest.mark.parametrize("voters", VOTERS)
def test_the_scripted_player_plays_the_others_by_default(voters):
    game = dealt(voters)
    env = seated("player_1", game, others=None)
    _, steps = episode(env, scripted_player())
    _, rewards, _ = play_aec(started(spy_v0.env, game), dict.fromkeys(SEATS, scripted_player()))
    assert steps[-1][1] == rewards["player_1"]


def test_the_seats_own_player_is_never_asked():
    def nobody(prompt):
        raise AssertionError("the seat itself was played by another")

    env = seated("player_2", dealt("all"), {**ECHOES, "player_2": nobody})
    episode(env, ECHOES["player_2"])
    del (others := dict(ECHOES))["player_2"]
    episode(seated("player_2", dealt("all"), others), ECHOES["player_2"])


def test_one_seed_is_one_game_and_resetting_without_one_deals_the_next():
    env = SeatEnv("player_1", rules=rules("all"), documents=[document(name=name) for name in "abc"])
    first, _ = env.reset(seed=11)
    second, _ = env.reset()
    assert second != first
    again, _ = env.reset(seed=11)
    assert (again, env.reset()[0]) == (first, second)
    own = document(name="own")
    env.reset(options={"document": own})
    assert env.table.game.document == own


def test_there_is_no_step_after_the_last():
    env = seated("player_1", dealt("all"))
    episode(env, ECHOES["player_1"])
    with pytest.raises(ValueError, match="dead"):
        env.step("more")


@pytest.mark.parametrize("voters", VOTERS)
@pytest.mark.parametrize("seat", ["player_0", "player_5", "spy", "referee_9", ""])
def test_an_unknown_seat_is_an_error_that_names_the_seats(voters, seat):
    with pytest.raises(ValueError, match=f"no seat '{seat}'.*'player_1', 'player_2'"):
        SeatEnv(seat, rules=rules(voters))


def test_a_referees_seat_exists_only_where_referees_vote():
    assert SeatEnv("referee_1", rules=rules("referees")).seat == "referee_1"
    with pytest.raises(ValueError, match="no seat 'referee_1'"):
        SeatEnv("referee_1", rules=rules("all"))


def test_every_other_seat_needs_a_player():
    with pytest.raises(ValueError, match=r"nobody plays \['player_3', 'player_4'\]"):
        SeatEnv("player_1", others={"player_2": scripted_player()}, rules=rules("all"))
    with pytest.raises(ValueError, match=r"nobody plays \['referee_1', 'referee_2', 'referee_3'\]"):
        SeatEnv("player_1", others={f"player_{n}": scripted_player() for n in (2, 3, 4)}, rules=rules("referees"))
