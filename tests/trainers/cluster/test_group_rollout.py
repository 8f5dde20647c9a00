import asyncio
import time

import pytest

from spy_env.records import to_json
from tests.trainers.engines.counting_engine import CountingEngine
from tests.trainers.test_rollout import SAMPLING, games
from trainers.cluster.group_rollout import Meeting
from trainers.engines import Failed, Reply
from trainers.prompt_budget import PromptBudget
from trainers.rollout import RETRIES, GamesFailedError, SeatPolicies, play_game, rollout, together

BUDGET = PromptBudget([CountingEngine()], SAMPLING)


def asked(engine):
    """A counting engine that is asked for one reply at a time."""

    async def generate(request):
        await asyncio.sleep(0)
        return engine.one(request)

    return generate


async def play_at_once(dealt, generate):
    return await together(play_game(game, BUDGET, generate) for game in dealt)


async def numbered(count, played=None):
    async def play():
        if played is not None:
            played.append(count)
        await asyncio.sleep(0)
        return list(range(count))

    return Meeting(count, play, 5.0)


def test_calls_get_the_results_in_the_order_in_which_they_came_and_the_play_is_one():
    async def meet():
        played = []
        meeting = await numbered(5, played)
        return await asyncio.gather(*(meeting.join() for _ in range(5))), played

    assert asyncio.run(meet()) == ([0, 1, 2, 3, 4], [5])


def test_nothing_is_played_before_all_have_come():
    async def meet():
        played = []
        meeting = await numbered(2, played)
        first = asyncio.create_task(meeting.join())
        await asyncio.sleep(0.01)
        before = list(played)
        return before, meeting.open, await meeting.join(), await first

    assert asyncio.run(meet()) == ([], True, 1, 0)


def test_a_call_too_many_is_refused_and_takes_nobodys_result():
    async def meet():
        meeting = await numbered(1)
        await meeting.join()
        assert not meeting.open
        await meeting.join()

    with pytest.raises(RuntimeError, match="all 1 calls have come"):
        asyncio.run(meet())


def test_a_meeting_that_all_have_left_is_not_open():
    async def meet():
        meeting = await numbered(2)
        only = asyncio.create_task(meeting.join())
        await asyncio.sleep(0)
        only.cancel()
        await asyncio.wait([only])
        assert not meeting.open  # its play is being cancelled, and isn't over yet
        await meeting.join()

    with pytest.raises(RuntimeError, match="or all that came have left"):
        asyncio.run(meet())


def test_an_error_of_the_play_is_raised_by_every_call():
    async def meet():
        async def play():
            raise GamesFailedError([])

        meeting = Meeting(3, play, 5.0)
        return await asyncio.gather(*(meeting.join() for _ in range(3)), return_exceptions=True)

    assert [type(told) for told in asyncio.run(meet())] == [GamesFailedError] * 3


def test_a_call_that_never_comes_strands_nobody():
    async def meet():
        meeting = Meeting(3, lambda: asyncio.sleep(0), 0.05)
        told = await asyncio.gather(meeting.join(), meeting.join(), return_exceptions=True)
        return told, meeting.open

    begun = time.monotonic()
    told, still_open = asyncio.run(meet())
    assert [str(each)[:48] for each in told] == ["2 of the 3 calls that play together came within "] * 2
    assert isinstance(told[0], TimeoutError)
    assert not still_open
    assert time.monotonic() - begun < 2


def test_a_cancelled_call_leaves_its_mates_playing_and_the_last_one_ends_the_play():
    async def meet():
        ended = asyncio.Event()

        async def play():
            try:
                await asyncio.sleep(30)
            finally:
                ended.set()
            return [1, 2]

        meeting = Meeting(2, play, 5.0)
        calls = [asyncio.create_task(meeting.join()) for _ in range(2)]
        await asyncio.sleep(0.01)
        calls[0].cancel()
        await asyncio.sleep(0.01)
        after_one = ended.is_set()
        calls[1].cancel()
        await asyncio.wait_for(ended.wait(), 1)
        return after_one

    assert asyncio.run(meet()) is False


def test_a_play_with_too_few_results_is_a_bug_that_raises():
    async def meet():
        async def play():
            return [1]

        meeting = Meeting(2, play, 5.0)
        await asyncio.gather(meeting.join(), meeting.join())

    with pytest.raises(RuntimeError, match="1 results for 2 calls"):
        asyncio.run(meet())


def test_both_twins_play_the_same_games():
    batch = rollout(games(4), SeatPolicies(CountingEngine(), SAMPLING))
    at_once = asyncio.run(play_at_once(games(4), asked(CountingEngine())))
    assert [to_json(one.game) for one in at_once] == [to_json(one.game) for one in batch]
    assert [one.replies for one in at_once] == [one.replies for one in batch]


def test_each_stage_is_one_wave_and_no_game_waits_for_another():
    under_way, most, waves = 0, 0, []

    async def generate(request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.05 if request.seed.startswith(slow) and "performing" in request.seed else 0)
        under_way -= 1
        waves.append(request.seed)
        return CountingEngine().one(request)

    dealt = games(3)
    slow = dealt[0].seed
    asyncio.run(play_at_once(dealt, generate))
    assert most == sum(len(game.players) for game in dealt)
    first_slow = next(i for i, seed in enumerate(waves) if seed.startswith(slow))
    assert all(seed.startswith(slow) for seed in waves[first_slow:])  # the others had voted by then


def test_a_game_is_played_again_from_the_same_deal_and_the_others_are_not():
    (game, other) = games(2)
    engine = CountingEngine(
        fails=lambda request, times: request.seed == f"{game.seed}/detection/player_2" and times < RETRIES
    )
    played = asyncio.run(play_at_once([game, other], asked(engine)))
    steady = asyncio.run(play_at_once([game, other], asked(CountingEngine())))
    assert [to_json(one.game) for one in played] == [to_json(one.game) for one in steady]
    assert engine.asked[f"{game.seed}/performing/player_1"] == 1 + RETRIES
    assert engine.asked[f"{other.seed}/performing/player_1"] == 1


def test_a_game_that_always_fails_is_named_and_ends_the_others():
    dealt = games(2)
    given_up = asyncio.Event()

    async def generate(request):
        if request.seed.startswith(dealt[0].seed):
            return Failed("the cable was cut")
        try:
            await asyncio.sleep(30)
        finally:
            given_up.set()
        return Reply("late")

    async def both():
        named = rf"game {dealt[0].seed}: player_1 in stage performing: the cable was cut"
        with pytest.raises(GamesFailedError, match=named):
            await play_at_once(dealt, generate)
        await asyncio.sleep(0.01)
        return given_up.is_set()

    assert asyncio.run(both())


def test_a_bug_in_the_engine_raises_at_once_and_ends_the_wave():
    async def generate(request):
        if request.seed.endswith("player_1"):
            raise KeyError("a bug")
        await asyncio.sleep(30)
        return Reply("late")

    begun = time.monotonic()
    with pytest.raises(KeyError, match="a bug"):
        asyncio.run(play_game(games(1)[0], BUDGET, generate))
    assert time.monotonic() - begun < 2


def test_together_keeps_the_order():
    async def late(number):
        await asyncio.sleep(0.01 * (3 - number))
        return number

    async def all_of_them():
        return await together(late(number) for number in range(3))

    assert asyncio.run(all_of_them()) == [0, 1, 2]
