"""The record that training goes by: advantages by stage, role baselines, and its JSON."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spy_env import PRESETS, RewardRules, Stage, player_seats, referee_seats
from tests.trainers.made_games import voted
from trainers.curriculum import Average, Curriculum, Schedule

P, D = Stage.PERFORMING, Stage.DETECTION
CAUGHT = "1 1 1 1"  # by four players, whose spy is player 1: margin 4, so the spy -0.4 and each civilian +0.4/3
FOOLED = "2 2 2 2"  # margin -4/3: the spy +0.4/3, player 2 -0.4/9 - 0.8/3, players 3 and 4 -0.4/9 + 0.4/3
NOBODY = "? ? ? ?"
SPY, CIVILIAN = "summarization/4/spy", "summarization/4/civilian"


def fresh(kind="hysteresis", **settings):
    return Curriculum.start(Schedule(kind), RewardRules(), **settings)


def of_seats(advantages, game):
    return [advantages[game.seed, seat] for seat in game.players]


def test_before_the_first_update_an_advantage_is_the_reward():
    caught, fooled = voted(CAUGHT, "a"), voted(FOOLED, "b")
    advantages = fresh().advantages([caught, fooled], P)
    assert of_seats(advantages, caught) == pytest.approx([-0.4, 0.4 / 3, 0.4 / 3, 0.4 / 3], abs=1e-15)
    assert of_seats(advantages, fooled) == pytest.approx([0.4 / 3, -2.8 / 9, 0.8 / 9, 0.8 / 9], abs=1e-15)
    assert len(advantages) == 8


def test_a_baseline_is_read_first_and_moved_afterwards():
    game = voted(CAUGHT)
    first = fresh()
    moved = first.after([game])
    assert of_seats(first.advantages([game], P), game)[0] == pytest.approx(-0.4)  # not -0.4 + 0.04
    assert moved.baselines == pytest.approx({SPY: -0.04, CIVILIAN: 0.04 / 3})
    assert of_seats(moved.advantages([game], P), game) == pytest.approx([-0.36, *[0.12] * 3])
    assert moved.after([game]).baselines == pytest.approx({SPY: -0.076, CIVILIAN: 0.076 / 3})


def test_reading_advantages_moves_nothing():
    curriculum = fresh().after([voted(CAUGHT)])
    before = curriculum.to_json()
    advantages = [curriculum.advantages([voted(FOOLED)], stage) for stage in (P, D, P, D)]
    assert advantages[:2] == advantages[2:]
    assert curriculum.to_json() == before


def test_a_baseline_moves_once_an_iteration_by_the_batchs_mean():
    batch = [voted(CAUGHT, "a"), voted(FOOLED, "b"), voted(CAUGHT, "c")]
    mean = (-0.4 + 0.4 / 3 - 0.4) / 3
    assert fresh().after(batch).baselines == pytest.approx({SPY: 0.1 * mean, CIVILIAN: -0.1 * mean / 3})
    assert fresh(alpha=0.5).after(batch).baselines[SPY] == pytest.approx(0.5 * mean)
    assert fresh().after(batch[::-1]).baselines == pytest.approx(fresh().after(batch).baselines)


def test_baselines_move_alike_whichever_stage_is_trained():
    batches = [[voted(CAUGHT)], [voted(FOOLED)], [voted(CAUGHT), voted(FOOLED, "2")]]
    ends = []
    for kind in ("detection", "performing", "joint", "cycle", "hysteresis"):
        curriculum = fresh(kind)
        for batch in batches:
            curriculum = curriculum.after(batch)
        ends.append(curriculum.baselines)
    assert len(ends[0]) == 2
    assert all(end == ends[0] for end in ends)


def test_baselines_are_kept_apart_by_task_players_and_role():
    batch = [
        voted(CAUGHT, "a"),
        voted("2 2 2 2 2", "b", players=5),
        voted("1 2 3 4", "c", task="creative_writing"),
    ]
    assert fresh().after(batch).baselines == pytest.approx(
        {
            SPY: -0.04,
            CIVILIAN: 0.04 / 3,
            "summarization/5/spy": 0.0125,
            "summarization/5/civilian": -0.003125,
            "creative_writing/4/spy": 0.0,
            "creative_writing/4/civilian": 0.0,
        },
        abs=1e-15,
    )
    moved = fresh().after(batch[:1])
    assert of_seats(moved.advantages(batch, P), batch[2]) == [0.0] * 4
    assert of_seats(moved.advantages(batch, P), batch[1])[0] == pytest.approx(0.125)


def test_a_game_without_a_readable_vote_has_advantage_exactly_zero_and_no_part_in_the_mean():
    moved = fresh().after([voted(CAUGHT)])
    lost = voted(NOBODY, "lost")
    assert of_seats(moved.advantages([lost], P), lost) == [0.0] * 4
    assert moved.after([lost]).baselines == moved.baselines
    assert moved.after([lost, voted(FOOLED)]).baselines == moved.after([voted(FOOLED)]).baselines


def test_abstaining_is_evidence_and_moves_the_baseline():
    moved = fresh().after([voted(CAUGHT)])
    silent = voted("N/A ? ? ?", "silent")
    assert of_seats(moved.advantages([silent], P), silent) == pytest.approx([0.04, *[-0.04 / 3] * 3])
    assert moved.after([silent]).baselines == pytest.approx({SPY: -0.036, CIVILIAN: 0.012})


def test_without_rae_an_advantage_stays_the_reward():
    curriculum = fresh(rae=False).after([voted(CAUGHT)])
    assert curriculum.baselines[SPY] == pytest.approx(-0.04)  # still told in the metrics
    assert of_seats(curriculum.advantages([voted(CAUGHT)], P), voted(CAUGHT))[0] == pytest.approx(-0.4)


def test_normalised_performing_advantages_have_std_one_over_a_games_players():
    caught, split = voted(CAUGHT, "a"), voted("1 2 2 3", "b")
    curriculum = fresh(normalise_performing=True)
    advantages = curriculum.advantages([caught, split], P)
    # -0.4 and three times 0.4/3: the population std is 0.4 / sqrt(3)
    assert of_seats(advantages, caught) == pytest.approx([-(3**0.5), *[1 / 3**0.5] * 3], abs=1e-4)
    plain = of_seats(fresh().advantages([split], P), split)
    std = (sum(value**2 for value in plain) / 4) ** 0.5
    assert of_seats(advantages, split) == pytest.approx([value / std for value in plain], abs=1e-4)


def test_detection_advantages_are_the_same_with_performing_normalised():
    games = [voted("1 1 2 3", "a")]
    assert fresh(normalise_performing=True).advantages(games, D) == fresh().advantages(games, D)


def test_performing_is_normalised_after_the_baseline_is_subtracted():
    wanted = {"normalise_performing": True, "alpha": 0.5}
    moved = fresh(**wanted).after([voted("1 1 2 3", "a")])
    game = voted(FOOLED, "b")
    differences = of_seats(fresh(alpha=0.5).after([voted("1 1 2 3", "a")]).advantages([game], P), game)
    std = (sum(value**2 for value in differences) / 4) ** 0.5
    assert of_seats(moved.advantages([game], P), game) == pytest.approx([v / std for v in differences], abs=1e-4)
    without = fresh(**wanted, rae=False).after([voted("1 1 2 3", "a")])
    assert of_seats(without.advantages([game], P), game) == pytest.approx(
        of_seats(fresh(**wanted).advantages([game], P), game)
    )


def test_a_game_that_went_as_usual_has_normalised_advantages_of_exactly_zero():
    game = voted(CAUGHT)
    as_usual = fresh(normalise_performing=True, alpha=0.0).after([game])  # the baseline is this game's rewards
    assert of_seats(as_usual.advantages([game], P), game) == pytest.approx([0.0] * 4, abs=1e-9)
    for said in (NOBODY, "N/A N/A N/A N/A", "2 1 4 3"):  # nothing readable, nobody named, everybody named once
        assert of_seats(fresh(normalise_performing=True).advantages([voted(said)], P), voted(said)) == [0.0] * 4
    assert of_seats(as_usual.advantages([voted(NOBODY)], P), voted(NOBODY)) == [0.0] * 4


def test_shuffled_advantages_are_the_same_values_dealt_to_other_replies():
    games = [voted(votes, str(i)) for i, votes in enumerate(["1 1 2 3", "1 2 1 1", "2 1 N/A ?", "3 3 3 1"])]
    for stage in (P, D):
        right, shuffled = (fresh(shuffle_seed=seed).advantages(games, stage) for seed in (None, 0))
        assert list(right) == list(shuffled)
        assert sorted(right.values()) == sorted(shuffled.values())
        assert right != shuffled


def test_the_learners_advantages_are_those_of_the_whole_game_and_shuffled_among_its_own_replies():
    games = [voted(votes, str(i)) for i, votes in enumerate(["1 1 2 3", "1 2 1 1", "2 1 N/A ?", "3 3 3 1"])]
    whole = fresh().advantages(games, P)
    for roles in (["spy"], ["civilian"], ["spy", "civilian"]):
        right, shuffled = (fresh(shuffle_seed=seed).advantages(games, P, roles) for seed in (None, 0))
        seats = {(game.seed, seat) for game in games for seat in game.players if game.role(seat) in roles}
        assert right == {key: value for key, value in whole.items() if key in seats}
        assert sorted(right.values()) == sorted(shuffled.values())
        assert shuffled.keys() == right.keys()
        assert right != shuffled


def test_advantages_are_shuffled_by_seed_iteration_and_stage_alone():
    games = [voted("1 1 2 3", str(i)) for i in range(8)]
    control = fresh(shuffle_seed=7)
    again = Curriculum.from_json(control.to_json())
    assert again.advantages(games, D) == control.advantages(games[::-1], D)
    later = control.after([voted("? ? ? ?")])  # which moves no baseline
    assert later.advantages(games, D) != control.advantages(games, D)
    assert fresh(shuffle_seed=8).advantages(games, D) != control.advantages(games, D)


@pytest.mark.parametrize(
    ("voters", "votes", "expected"),
    [
        ("all", "1 1 2 3", {"player_2": 2**0.5, "player_3": -(0.5**0.5), "player_4": -(0.5**0.5)}),
        ("civilians", "1 1 ?", {"player_2": 0.5**0.5, "player_3": 0.5**0.5, "player_4": -(2**0.5)}),
        ("referees", "1 N/A", {"referee_1": 1.0, "referee_2": -1.0}),
        ("all", "2 1 1 1", dict.fromkeys(player_seats(4)[1:], 0.0)),  # the spy's vote makes no difference
    ],
)
def test_detection_advantages_are_the_trained_voters_alone(voters, votes, expected):
    game = voted(votes, "g", voters=voters, referees=2)
    advantages = fresh().advantages([game], D)
    assert advantages == pytest.approx({("g", seat): value for seat, value in expected.items()}, abs=1e-5)


def test_groups_are_normalised_one_by_one_and_under_the_prices_given():
    games = [voted("1 1 2 2", "a"), voted("1 N/A ? 2", "b")]
    paid = Curriculum.start(Schedule(), PRESETS["vision_zero"]).advantages(games, D)
    free = fresh().advantages(games, D)
    assert [free["b", seat] for seat in player_seats(4)[1:]] == [0.0] * 3
    assert paid["b", "player_2"] == pytest.approx(2**0.5, abs=1e-5)  # -0.5 among -1 and -1
    assert [paid["a", seat] for seat in player_seats(4)[1:]] == pytest.approx(
        [free["a", seat] for seat in player_seats(4)[1:]], abs=1e-5
    )


def test_referees_vote_and_players_perform():
    game = voted("1 1 2", "g", voters="referees", referees=3)
    assert [seat for _, seat in fresh().advantages([game], D)] == list(referee_seats(3))
    assert [seat for _, seat in fresh().advantages([game], P)] == list(player_seats(4))
    # 8/3 weighted votes for the spy and 4/3 for player 2: margin 8/3 - 4/9
    assert fresh().advantages([game], P)["g", "player_1"] == pytest.approx(-0.1 * (8 / 3 - 4 / 9))


numbers = st.floats(allow_nan=False, allow_infinity=False)
averages = st.builds(Average, numbers, st.floats(0, 1))
curricula = st.builds(
    Curriculum,
    st.builds(Schedule, st.sampled_from(["hysteresis", "cycle"]), st.tuples(st.integers(1, 9), st.integers(1, 9))),
    st.builds(RewardRules, numbers, numbers, numbers, numbers, numbers, numbers),
    st.booleans(),
    numbers,
    st.booleans(),
    st.none() | st.integers(),
    st.integers(0, 10**6),
    st.sampled_from([P, D]),
    st.integers(0, 100),
    st.integers(0, 100),
    averages,
    averages,
    st.dictionaries(st.text(), numbers, max_size=4),
)


@given(curricula)
@settings(deadline=None)
def test_json_gives_back_the_very_same_record(curriculum):
    again = Curriculum.from_json(curriculum.to_json())
    assert again == curriculum
    assert (type(again.stage), type(again.schedule.cycle)) == (Stage, tuple)
    assert again.to_json() == curriculum.to_json()


def test_a_run_goes_on_from_json_as_if_it_had_never_stopped():
    batches = [[voted(CAUGHT)], [voted(FOOLED)], [voted("1 2 1 N/A")]] * 3
    whole = stopped = fresh()
    for batch in batches:
        whole = whole.after(batch)
        stopped = Curriculum.from_json(stopped.after(batch).to_json())
    assert stopped == whole
