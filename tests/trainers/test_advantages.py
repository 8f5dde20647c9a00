"""From rewards to advantages: SpyRL's published values, exact zeros, and sums that role baselines must keep."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spy_env import RewardRules, Stage
from spy_env.advantages import EPSILON, group_advantages, role_advantages
from tests.trainers.made_games import ABSTAINS, MUMBLES, voted
from trainers.curriculum import Curriculum, Schedule

ROUNDED = 0.005  # SPYRL.md gives two decimals


@pytest.mark.parametrize(
    ("detectors", "right", "of_right", "of_wrong"),
    [
        (5, 1, 2.00, -0.50),
        (5, 2, 1.22, -0.82),
        (5, 3, 0.82, -1.22),
        (5, 4, 0.50, -2.00),
        (4, 1, 1.73, -0.58),
        (4, 2, 1.00, -1.00),
        (4, 3, 0.58, -1.73),
    ],
)
def test_detectors_advantages_are_the_published_ones(detectors, right, of_right, of_wrong):
    advantages = group_advantages([1.0] * right + [0.0] * (detectors - right))
    assert advantages[:right] == pytest.approx([of_right] * right, abs=ROUNDED)
    assert advantages[right:] == pytest.approx([of_wrong] * (detectors - right), abs=ROUNDED)


def test_the_std_is_the_populations_and_epsilon_is_added_to_it():
    # mean 3, squared distances 4 1 9 0, population variance 14/4; the sample variance would be 14/3
    std = 3.5**0.5
    expected = [(value - 3) / (std + EPSILON) for value in (1, 2, 6, 3)]
    assert group_advantages([1, 2, 6, 3]) == pytest.approx(expected, abs=1e-12)
    assert EPSILON == 1e-6


@pytest.mark.parametrize("reward", [0.0, 0.1, 1 / 3, -0.7, 123456.789])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 7, 10])
def test_equal_rewards_give_exactly_zero_in_float32_too(reward, size):
    assert group_advantages([reward] * size) == [0.0] * size
    in_float32 = torch.tensor([reward] * size, dtype=torch.float32).tolist()
    assert not torch.tensor(group_advantages(in_float32), dtype=torch.float32).any()


def test_a_group_without_samples_has_no_advantages():
    assert group_advantages([]) == []


@given(st.lists(st.sampled_from([1.0, 0.0, -0.5, -1.0]), min_size=2, max_size=10))
@settings(deadline=None)
def test_advantages_of_a_group_sum_to_zero_and_keep_the_rewards_order(rewards):
    advantages = group_advantages(rewards)
    assert sum(advantages) == pytest.approx(0, abs=1e-9)
    ranked = sorted(zip(rewards, advantages, strict=True))
    assert all(low[1] < high[1] for low, high in pairwise(ranked) if low[0] < high[0])


def test_a_role_without_a_baseline_is_read_as_zero_and_nothing_is_written_back():
    baselines = {"civilian": 0.25}
    rewards = {"player_1": -0.5, "player_2": 0.25, "player_3": 0.75}
    roles = {"player_1": "spy", "player_2": "civilian", "player_3": "civilian"}
    assert role_advantages(rewards, roles, baselines) == {"player_1": -0.5, "player_2": 0.0, "player_3": 0.5}
    assert baselines == {"civilian": 0.25}


def games(players, voters):
    """A drawn game's votes and spy; some games have no vote that can be read."""
    said = st.sampled_from([*map(str, range(1, players + 1)), ABSTAINS, MUMBLES])
    count = {"all": players, "civilians": players - 1, "referees": 8}[voters]
    votes = st.lists(said, min_size=count, max_size=count) | st.just([MUMBLES] * count)
    return st.tuples(votes, st.integers(1, players).map("player_{}".format))


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_role_baselines_keep_every_games_advantages_at_sum_zero(data):
    players = data.draw(st.integers(3, 6))
    voters = data.draw(st.sampled_from(["all", "civilians", "referees"]))
    rewards = RewardRules(beta=data.draw(st.floats(0, 1)), lam=data.draw(st.floats(0, 1)))
    schedule = Schedule(data.draw(st.sampled_from(["performing", "detection"])))
    curriculum = Curriculum.start(schedule, rewards, alpha=data.draw(st.floats(0, 1)))
    for iteration in range(data.draw(st.integers(1, 4))):
        drawn = data.draw(st.lists(games(players, voters), min_size=1, max_size=4))
        batch = [
            voted(votes, f"{iteration}/{i}", spy, players=players, voters=voters)
            for i, (votes, spy) in enumerate(drawn)
        ]
        advantages = curriculum.advantages(batch, Stage.PERFORMING)
        for game in batch:
            assert abs(sum(advantages[game.seed, seat] for seat in game.players)) < 1e-12
        curriculum = curriculum.after(batch)
        key = f"summarization/{players}/"
        spy, civilian = (curriculum.baselines.get(key + role, 0.0) for role in ("spy", "civilian"))
        assert abs(spy + (players - 1) * civilian) < 1e-12
