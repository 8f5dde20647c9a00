"""What games give to a trainer, and the numbers told of a batch, worked out by hand."""

from math import log

import pytest

from spy_env import PRESETS, RawReply, RewardRules, Stage, player_seats, referee_seats
from tests.trainers.made_games import dealt, voted, with_votes
from trainers.engines import Reply
from trainers.metrics import commonest_number, game_metrics, learner_metrics, mean, sample_metrics
from trainers.rollout import Played
from trainers.samples import Sample, samples_of

P, D = Stage.PERFORMING, Stage.DETECTION


def reply_of(stage, seat):
    """Tokens that tell whose they are, as long as the seat's number."""
    number = int(seat[-1])
    base = {P: 100, D: 200}[stage] + number
    ids = tuple(range(base, base + number))
    return Reply("said", "", number == 3, (1, base), ids, tuple(-0.1 * i for i in ids))


def played(game, without=()):
    seats = {P: game.players, D: game.voters}
    replies = {
        stage: {seat: Reply("no ids") if seat in without else reply_of(stage, seat) for seat in own}
        for stage, own in seats.items()
    }
    return Played(game, replies)


def test_every_performance_is_a_sample_with_the_seats_own_tokens():
    game = voted("2 2 1 2", "g", spy="player_2")
    samples = samples_of([played(game)], P, RewardRules())
    assert [sample.seat for sample in samples] == list(player_seats(4))
    assert [sample.role for sample in samples] == ["civilian", "spy", "civilian", "civilian"]
    assert {(sample.game, sample.stage) for sample in samples} == {("g", P)}
    for sample in samples:
        reply = reply_of(P, sample.seat)
        assert (sample.prompt_ids, sample.ids, sample.logprobs) == (reply.prompt_ids, reply.ids, reply.logprobs)
        assert sample.truncated == (sample.seat == "player_3")
    assert {sample.seat: sample.reward for sample in samples} == game.rewards(RewardRules()).performing


@pytest.mark.parametrize(
    ("voters", "votes", "seats"),
    [
        ("all", "2 2 1 N/A", ("player_1", "player_3", "player_4")),
        ("civilians", "2 1 N/A", ("player_1", "player_3", "player_4")),
        ("referees", "2 1 N/A", referee_seats(3)),
    ],
)
def test_the_spys_vote_is_left_out_and_votes_are_paid_by_the_rules(voters, votes, seats):
    game = voted(votes, "g", spy="player_2", voters=voters, referees=3)
    samples = samples_of([played(game)], D, PRESETS["vision_zero"])
    assert [(sample.stage, sample.seat, sample.reward) for sample in samples] == [
        (D, seat, reward) for seat, reward in zip(seats, (1, -1, -0.5), strict=True)
    ]
    assert [sample.ids for sample in samples] == [reply_of(D, seat).ids for seat in seats]
    assert {sample.role for sample in samples} == {"referee" if voters == "referees" else "civilian"}


def test_games_follow_one_another_and_no_two_samples_share_a_key():
    games = [played(voted("1 1 1 1", seed)) for seed in ("a", "b")]
    samples = [sample for stage in (P, D) for sample in samples_of(iter(games), stage, RewardRules())]
    keys = [(sample.game, sample.stage, sample.seat) for sample in samples]
    assert len(set(keys)) == len(keys) == 2 * 4 + 2 * 3
    assert [game for game, stage, _ in keys if stage is D] == ["a"] * 3 + ["b"] * 3


@pytest.mark.parametrize(("stage", "seat"), [(P, "player_1"), (P, "player_4"), (D, "player_2")])
def test_a_reply_without_token_ids_is_refused_by_the_games_name(stage, seat):
    game = voted("1 1 1 1", "7/3/2")
    with pytest.raises(ValueError, match=f"game 7/3/2: {seat}'s reply has no token ids; only a local model's"):
        samples_of([played(game, without=(seat,))], stage, RewardRules())


def test_the_spys_vote_needs_no_token_ids():
    game = voted("1 1 1 1")
    assert len(samples_of([played(game, without=("player_1",))], D, RewardRules())) == 3


def test_a_sample_of_an_unfinished_game_is_refused():
    with pytest.raises(ValueError, match="game 1 is in stage performing"):
        samples_of([played(dealt())], P, RewardRules())


def batch():
    """Games of four, whose spy is player 1: caught by two votes to one, no vote that can be read, all for player 3."""
    marked, unmarked, cut = RawReply("Summary: A mill."), RawReply("A mill."), RawReply("Summary: A", truncated=True)
    first, second = dealt("a"), dealt("b")
    first = first.with_replies(dict(zip(first.players, (marked, cut, unmarked, marked), strict=True)))
    second = second.with_replies(dict.fromkeys(second.players, unmarked))
    mumbled = {seat: RawReply("nobody", truncated=seat == "player_1") for seat in second.players}
    return [with_votes(first, "2 1 1 N/A"), second.with_replies(mumbled), voted("3 3 3 3", "c")]


def test_game_metrics_are_as_counted_by_hand():
    metrics = game_metrics(batch(), RewardRules())
    # the spy has 2 votes and the civilians' mean is 1/3; none and none; none and 4/3
    spy = (-0.1 * (2 - 1 / 3) + 0 + 0.1 * 4 / 3) / 3
    assert metrics == pytest.approx(
        {
            "game/caught": 1 / 3,
            "game/no_readable_vote": 1 / 3,
            "game/commonest_vote": 4 / 7,
            # the civilians': twice number 1, N/A, three times unreadable, three times number 3
            "game/vote_entropy": -(2 / 9 * log(2 / 9) + 1 / 9 * log(1 / 9) + 2 * 3 / 9 * log(3 / 9)),
            "game/unmarked": 5 / 12,
            "game/readable": 8 / 12,
            "game/accuracy": 2 / 9,
            "game/accuracy/civilian": 2 / 9,
            "game/abstained/civilian": 1 / 9,
            "game/unreadable/civilian": 3 / 9,
            "game/accuracy/spy": 0.0,
            "game/abstained/spy": 0.0,
            "game/unreadable/spy": 1 / 3,
            "game/reward_performing/spy": spy,
            "game/reward_performing/civilian": -spy / 3,
            "game/truncated/performing": 1 / 12,
            "game/truncated/detection": 1 / 12,
        }
    )


def test_referees_have_metrics_of_their_own_and_voters_that_are_not_there_have_none():
    metrics = game_metrics([voted("1 1 2 N/A", voters="referees", referees=4)], RewardRules())
    told = {name: value for name, value in metrics.items() if name.startswith(("game/accuracy", "game/abstained"))}
    assert told == {"game/accuracy": 0.5, "game/accuracy/referee": 0.5, "game/abstained/referee": 0.25}


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        (["1 1 2 3", "2 2 2 4"], (2, 0.5)),
        (["N/A N/A ? 4", "? ? ? ?"], (4, 1.0)),
        (["N/A ? ? ?"], (0, 0.0)),
        ([], (0, 0.0)),
    ],
)
def test_the_commonest_number_is_told_with_its_share_of_the_votes_that_name_a_player(votes, expected):
    assert commonest_number([voted(cast, str(i)) for i, cast in enumerate(votes)]) == expected


def sample(game, reward, stage=P, length=2, truncated=False):
    ids = tuple(range(length))
    return Sample(game, stage, "player_1", "civilian", (1,), ids, (-0.5,) * length, truncated, reward)


def test_sample_metrics_are_as_counted_by_hand():
    samples = [
        sample("a", 1.0, length=1),
        sample("a", 0.0, length=2, truncated=True),
        sample("b", -0.5, length=3),
        sample("b", -0.5, length=6),
        sample("b", 1.0, stage=D, length=8),  # another group than the game's performances
    ]
    assert sample_metrics(samples) == pytest.approx(
        {
            "reward": 0.2,
            "reward_std": ((0.64 + 0.04 + 0.49 + 0.49 + 0.64) / 5) ** 0.5,
            "frac_reward_zero_std": 2 / 3,
            "completions/mean_length": 4.0,
            "completions/clipped_ratio": 0.2,
            "num_samples": 5,
        }
    )


def test_no_samples_give_zeros():
    assert set(sample_metrics([]).values()) == {0.0}
    assert mean([]) == 0.0


@pytest.mark.parametrize(
    ("learner", "voters", "performing", "detection"),
    [
        (("spy",), "all", ("player_2",), ()),
        (("civilian", "referee"), "all", ("player_1", "player_3", "player_4"), ("player_1", "player_3", "player_4")),
        (("spy", "civilian"), "referees", player_seats(4), ()),
        (("referee",), "referees", (), referee_seats(3)),
        (("spy", "referee"), "referees", ("player_2",), referee_seats(3)),
    ],
)
def test_only_the_learners_replies_are_samples_and_opponents_need_no_token_ids(learner, voters, performing, detection):
    votes = "2 1 N/A" if voters == "referees" else "2 2 1 N/A"
    game = voted(votes, "g", spy="player_2", voters=voters, referees=3)
    others = [seat for seat in (*game.players, *game.voters) if game.role(seat) not in learner]
    one = played(game, without=others)
    for stage, seats in ((P, performing), (D, detection)):
        samples = samples_of([one], stage, RewardRules(), learner)
        assert [(sample.seat, sample.ids) for sample in samples] == [
            (seat, reply_of(stage, seat).ids) for seat in seats
        ]


def test_the_learners_metrics_leave_opponents_out_and_are_as_counted_by_hand():
    # player 1 is the spy; its votes: one for player 2, one that can't be read, one for player 3
    spy = learner_metrics(batch(), RewardRules(), ["spy"])
    margin = 2 - 1 / 3, 0, -4 / 3
    assert spy == pytest.approx(
        {
            "game/learner/unmarked": 1 / 3,
            "game/learner/reward_performing": -0.1 * sum(margin) / 3,
            "game/learner/truncated/performing": 0.0,
            "game/learner/truncated/detection": 1 / 3,
            "game/learner/readable": 2 / 3,
        }
    )
    civilians = learner_metrics(batch(), RewardRules(), ["civilian"])
    assert civilians == pytest.approx(
        {
            "game/learner/unmarked": 4 / 9,
            "game/learner/reward_performing": 0.1 * sum(margin) / 9,
            "game/learner/truncated/performing": 1 / 9,
            "game/learner/truncated/detection": 0.0,
            "game/learner/readable": 6 / 9,
            "game/learner/accuracy": 2 / 9,
            "game/learner/abstained": 1 / 9,
        }
    )


def test_a_learner_who_does_not_vote_has_no_metrics_of_votes():
    metrics = learner_metrics([voted("1 1 2", voters="referees", referees=3)], RewardRules(), ["spy", "civilian"])
    assert set(metrics) == {
        f"game/learner/{name}" for name in ("unmarked", "reward_performing", "truncated/performing")
    }
