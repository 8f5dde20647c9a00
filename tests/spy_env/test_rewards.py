"""What votes pay: every ballot of small games, and values worked out by hand from SpyRL's Eq 5 and 6."""

from itertools import combinations_with_replacement, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spy_env.ballot import ABSTAIN, UNREADABLE
from spy_env.rewards import PRESETS, RewardRules, Tally, count_votes, detection_rewards, performing_rewards
from spy_env.seats import player_seats, referee_seats

EXACT = 1e-12
SPYRL = RewardRules()


def ballots(players):
    """Every way in which ``players`` seats can vote for one another, abstain, or write what can't be read."""
    seats = player_seats(players)
    for votes in product([*seats, ABSTAIN, UNREADABLE], repeat=players):
        yield dict(zip(seats, votes, strict=True))


@pytest.mark.parametrize("players", [3, 4, 5])
def test_the_rewards_of_every_ballot_sum_to_zero(players):
    seats = player_seats(players)
    count = 0
    for votes in ballots(players):
        count += 1
        tally = count_votes(votes, seats)
        for spy in seats[:: players - 1]:  # the first and the last
            rewards = performing_rewards(tally, spy, SPYRL)
            assert abs(sum(rewards.values())) <= EXACT
            civilians = [rewards[seat] for seat in seats if seat != spy]
            assert abs(sum(civilians) / len(civilians) + rewards[spy] / len(civilians)) <= EXACT
    assert count == (players + 2) ** players


@pytest.mark.parametrize("referees", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("players", [3, 5])
def test_the_rewards_of_every_count_of_referees_votes_sum_to_zero(players, referees):
    seats = player_seats(players)
    for votes in combinations_with_replacement([*seats, ABSTAIN, UNREADABLE], referees):
        tally = count_votes(dict(zip(referee_seats(referees), votes, strict=True)), seats, weight=players / referees)
        rewards = performing_rewards(tally, "player_2", SPYRL)
        assert abs(sum(rewards.values())) <= EXACT


@given(
    st.lists(st.floats(0, 100), min_size=3, max_size=12),
    st.floats(0, 2),
    st.floats(0, 2),
    st.integers(0, 11),
)
def test_rewards_sum_to_zero_under_any_weights(received, beta, lam, spy):
    seats = player_seats(len(received))
    tally = Tally(dict(zip(seats, received, strict=True)), abstained=0, unreadable=0)
    rewards = performing_rewards(tally, seats[spy % len(seats)], RewardRules(beta=beta, lam=lam))
    assert list(rewards) == list(seats)
    assert abs(sum(rewards.values())) <= EXACT * max(1, *received) * 100


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        # The spy is player 1; beta = lam = 0.1; four civilians, mbar is their mean.
        # All five for the spy: mbar 0, margin 0.1 x 5; each civilian gets a quarter of it.
        ((5, 0, 0, 0, 0), (-0.5, 0.125, 0.125, 0.125, 0.125)),
        # All five for one civilian: mbar 1.25; spy 0.1 x 1.25; accused -0.03125 - 0.1 x 3.75; others -0.03125 + 0.125.
        ((0, 5, 0, 0, 0), (0.125, -0.40625, 0.09375, 0.09375, 0.09375)),
        # One each: nobody stands out.
        ((1, 1, 1, 1, 1), (0.0, 0.0, 0.0, 0.0, 0.0)),
        # Nobody votes.
        ((0, 0, 0, 0, 0), (0.0, 0.0, 0.0, 0.0, 0.0)),
        # Three for the spy, two for player 2: mbar 0.5, margin 0.25, a quarter 0.0625; then -0.1 x 1.5 or +0.1 x 0.5.
        ((3, 2, 0, 0, 0), (-0.25, -0.0875, 0.1125, 0.1125, 0.1125)),
        # Three players: two for the spy, one for player 2: mbar 0.5, margin 0.15, a half is 0.075; then -/+ 0.05.
        ((2, 1, 0), (-0.15, 0.025, 0.125)),
        # Four players, all four for player 4: mbar 4/3; spy 0.1 x 4/3, a third is 0.4/9; accused - 0.1 x 8/3.
        ((0, 0, 0, 4), (0.4 / 3, -0.4 / 9 + 0.4 / 3, -0.4 / 9 + 0.4 / 3, -0.4 / 9 - 0.8 / 3)),
    ],
)
def test_performing_rewards_are_as_worked_out_by_hand(received, expected):
    seats = player_seats(len(received))
    tally = Tally(dict(zip(seats, received, strict=True)), abstained=0, unreadable=0)
    assert performing_rewards(tally, "player_1", SPYRL) == pytest.approx(
        dict(zip(seats, expected, strict=True)), abs=EXACT
    )


def test_beta_moves_the_spy_and_lam_tells_civilians_apart():
    tally = Tally({"player_1": 2, "player_2": 1, "player_3": 0}, abstained=0, unreadable=0)
    no_lam = performing_rewards(tally, "player_1", RewardRules(beta=1, lam=0))
    assert no_lam == pytest.approx({"player_1": -1.5, "player_2": 0.75, "player_3": 0.75})
    no_beta = performing_rewards(tally, "player_1", RewardRules(beta=0, lam=1))
    assert no_beta == pytest.approx({"player_1": 0, "player_2": -0.5, "player_3": 0.5})


def test_swapping_seats_swaps_their_rewards():
    seats = player_seats(4)
    received = dict(zip(seats, (3, 0, 1, 2), strict=True))
    rewards = performing_rewards(Tally(received, 0, 0), "player_2", SPYRL)
    for order in permutations(seats):
        renamed = dict(zip(seats, order, strict=True))
        tally = Tally({renamed[seat]: votes for seat, votes in received.items()}, 0, 0)
        again = performing_rewards(tally, renamed["player_2"], SPYRL)
        assert again == pytest.approx({renamed[seat]: reward for seat, reward in rewards.items()}, abs=EXACT)


def test_votes_are_counted_by_player_and_weighted_while_the_others_stay_plain_counts():
    votes = dict(
        zip(referee_seats(8), [*["player_2"] * 3, "player_1", ABSTAIN, ABSTAIN, UNREADABLE, "player_2"], strict=True)
    )
    assert count_votes(votes, player_seats(5), weight=5 / 8) == Tally(
        received={"player_1": 0.625, "player_2": 2.5, "player_3": 0, "player_4": 0, "player_5": 0},
        abstained=2,
        unreadable=1,
    )


def test_eight_referees_of_one_mind_pay_as_five_players_do():
    seats = player_seats(5)
    for accused in seats:
        by_referees = count_votes(dict.fromkeys(referee_seats(8), accused), seats, weight=5 / 8)
        by_players = count_votes(dict.fromkeys(seats, accused), seats)
        assert performing_rewards(by_referees, "player_3", SPYRL) == performing_rewards(by_players, "player_3", SPYRL)


@pytest.mark.parametrize(
    ("preset", "right", "wrong", "abstained", "unreadable"),
    [("spyrl", 1, 0, 0, 0), ("vision_zero", 1, -1, -0.5, -1)],
)
def test_each_vote_is_paid_by_its_preset(preset, right, wrong, abstained, unreadable):
    votes = {
        "player_1": "player_3",
        "player_2": "player_1",
        "player_3": "player_3",  # the spy may name itself
        "player_4": ABSTAIN,
        "player_5": UNREADABLE,
    }
    paid = detection_rewards(votes, "player_3", PRESETS[preset])
    assert list(paid.values()) == [right, wrong, right, abstained, unreadable]
    assert list(paid) == list(votes)


def test_only_these_presets_exist_and_both_move_performers_alike():
    assert set(PRESETS) == {"spyrl", "vision_zero"}
    assert {(rules.beta, rules.lam) for rules in PRESETS.values()} == {(0.1, 0.1)}


@pytest.mark.parametrize(("right_share", "abstaining_pays_more"), [(0.2, True), (0.25, False), (0.3, False)])
def test_vision_zero_makes_weak_detectors_abstain(right_share, abstaining_pays_more):
    rules = PRESETS["vision_zero"]
    guess = right_share * rules.right + (1 - right_share) * rules.wrong
    assert (rules.abstain > guess) == abstaining_pays_more


def test_detection_pays_only_those_who_vote():
    assert detection_rewards({"player_2": "player_1"}, "player_1", SPYRL) == {"player_2": 1.0}
    assert detection_rewards({}, "player_1", SPYRL) == {}
