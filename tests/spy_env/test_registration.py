import gymnasium
import pettingzoo

from spy_env import seat_view, spy_v0


def test_the_doors_are_found_by_id():
    for kind, door in (("aec", spy_v0.env), ("parallel", spy_v0.parallel_env)):
        env = pettingzoo.make(kind, "spy_env/Spy-v0", task="math_reasoning")
        assert type(env) is type(door())
        assert env.unwrapped.task == "math_reasoning"
    assert gymnasium.make("spy_env/Seat-v0", seat="player_2").unwrapped.seat == "player_2"
    assert isinstance(gymnasium.make("spy_env/Seat-v0").unwrapped, seat_view.SeatEnv)
