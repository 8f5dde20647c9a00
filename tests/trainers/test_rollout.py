"""Many games at once: one batch a stage and engine, and games played again after trouble."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence

import pytest

from spy_env import Document, Rules, Stage, deal
from spy_env.records import to_json
from tests.trainers.engines.counting_engine import CountingEngine
from trainers.engines import Reply, Request, Sampling
from trainers.rollout import RETRIES, GamesFailedError, SeatPolicies, rollout

SAMPLING = {Stage.PERFORMING: Sampling(20), Stage.DETECTION: Sampling(10)}
SENTENCE = "A bridge over the river was closed in spring. "


def games(count: int, rules: Rules | None = None):
    rules = rules or Rules(players=4)
    return [
        deal(Document(f"d{i}", f"{SENTENCE}{i}"), "summarization", rules, f"run/1/{i}", Stage.DETECTION)
        for i in range(count)
    ]


def sitting(requests: Sequence[Request]) -> set[str]:
    return {request.seed.rpartition("/")[2] for request in requests}


def test_all_games_advance_together_in_one_batch_a_stage():
    engine = CountingEngine()
    played = rollout(games(6), SeatPolicies(engine, SAMPLING))
    assert [one.game.seed for one in played] == [f"run/1/{i}" for i in range(6)]
    assert [len(batch) for batch in engine.batches] == [6 * 4, 6 * 4]
    assert [{request.sampling for request in batch} for batch in engine.batches] == [{s} for s in SAMPLING.values()]
    assert all(one.game.stage is Stage.OVER for one in played)


def test_every_request_has_chance_of_its_own():
    engine = CountingEngine()
    rollout(games(6), SeatPolicies(engine, SAMPLING))
    assert set(engine.asked.values()) == {1}
    assert len(engine.asked) == 2 * 6 * 4


def test_a_reply_stands_in_the_record_as_the_engine_gave_it():
    class Prefilling(CountingEngine):
        def one(self, request):
            return Reply("2}", r"\boxed{", True, (1, 2), (3,), (-0.5,))

    (played,) = rollout(games(1), SeatPolicies(Prefilling(), SAMPLING))
    assert set(played.game.replies[Stage.DETECTION].values()) == {("2}", r"\boxed{", True)}
    assert set(played.game.votes().values()) == {"player_2"}
    assert played.replies[Stage.DETECTION]["player_1"] == Reply("2}", r"\boxed{", True, (1, 2), (3,), (-0.5,))


def test_each_seat_is_played_by_its_own_engine_in_one_batch_a_stage():
    learner, opponent, jury = CountingEngine(), CountingEngine(), CountingEngine()
    others = {"player_2": opponent, "player_3": opponent, "referee_1": jury}
    rules = Rules(players=4, voters="referees", referees=2)
    rollout(games(5, rules), SeatPolicies(learner, SAMPLING, others=others))
    assert [(len(batch), sitting(batch)) for batch in learner.batches] == [
        (10, {"player_1", "player_4"}),
        (5, {"referee_2"}),
    ]
    assert [(len(batch), sitting(batch)) for batch in opponent.batches] == [(10, {"player_2", "player_3"})]
    assert [(len(batch), sitting(batch)) for batch in jury.batches] == [(5, {"referee_1"})]


@pytest.mark.parametrize("stage", [Stage.PERFORMING, Stage.DETECTION])
@pytest.mark.parametrize("times_failed", [1, RETRIES])
def test_a_game_that_failed_is_played_again_from_the_same_deal(stage, times_failed):
    def fails(request: Request, times: int) -> bool:
        return request.seed == f"run/1/2/{stage}/player_3" and times < times_failed

    stumbling, steady = CountingEngine(fails=fails), CountingEngine()
    after_trouble, undisturbed = (
        [to_json(one.game) for one in rollout(games(4), SeatPolicies(engine, SAMPLING))]
        for engine in (stumbling, steady)
    )
    assert after_trouble == undisturbed
    again = Counter(seed.split("/")[2] for seed, times in stumbling.asked.items() if times > 1)
    assert set(again) == {"2"}, "only the failed game is played again"
    assert stumbling.asked["run/1/2/performing/player_1"] == 1 + times_failed


def test_a_game_is_given_up_after_two_more_tries_and_named():
    engine = CountingEngine(fails=lambda request, _: "run/1/1/detection" in request.seed)
    with pytest.raises(
        GamesFailedError, match=r"1 game.* in 3 tries: game run/1/1: player_1 in stage detection: the cable"
    ):
        rollout(games(3), SeatPolicies(engine, SAMPLING))
    assert max(engine.asked.values()) == 1 + RETRIES


def test_what_failed_is_told_whole_to_another_process():
    error = GamesFailedError([(game, "the cable") for game in games(2)])
    told = pickle.loads(pickle.dumps(error))
    assert str(told) == str(error)
    assert told.failures == error.failures


def test_games_fail_one_by_one_where_somebody_is_told():
    engine = CountingEngine(fails=lambda request, _: request.seed.split("/")[2] in "13")
    told = []
    played = rollout(games(5), SeatPolicies(engine, SAMPLING), on_failure=lambda game, reason: told.append(game.seed))
    assert [one.game.seed for one in played] == ["run/1/0", "run/1/2", "run/1/4"]
    assert told == ["run/1/1", "run/1/3"]


def test_a_role_is_played_by_its_own_engine_wherever_it_sits_and_a_seat_goes_before_its_role():
    learner, spies, jury, guest = (CountingEngine() for _ in range(4))
    rules = Rules(players=4, voters="referees", referees=2)
    dealt = games(8, rules)
    sits = {game.seed: game.spy for game in dealt}
    assert len(set(sits.values())) > 1, "the spy's seat is drawn for each game"
    others = {"spy": spies, "referee": jury, "player_1": guest}
    rollout(dealt, SeatPolicies(learner, SAMPLING, others=others))
    asked = {
        name: {tuple(request.seed.rsplit("/", 2)[::2]) for batch in engine.batches for request in batch}
        for name, engine in {"learner": learner, "spies": spies, "jury": jury, "guest": guest}.items()
    }
    assert asked["spies"] == {(seed, spy) for seed, spy in sits.items() if spy != "player_1"}
    assert asked["guest"] == {(seed, "player_1") for seed in sits}
    assert asked["jury"] == {(seed, f"referee_{n}") for seed in sits for n in (1, 2)}
    assert asked["learner"] == {(seed, f"player_{n}") for seed, spy in sits.items() for n in (2, 3, 4)} - asked["spies"]
    assert [len(engine.batches) for engine in (learner, spies, jury, guest)] == [1, 1, 1, 1]
