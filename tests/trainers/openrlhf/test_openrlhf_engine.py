import asyncio
import time
from dataclasses import replace

import pytest

from spy_env import Stage, read_games
from tests.trainers import tiny_world
from tests.trainers.engines.called_engines import (
    LOGPROB,
    TOKENS,
    LocalCoordinator,
    ScriptedCalls,
    params,
    prompt_rows,
    settings,
)
from trainers.cluster import group_rollout
from trainers.cluster.prompt_rows import from_json, to_json
from trainers.disk import read_log
from trainers.engines import Sampling
from trainers.openrlhf.engine import EngineRollout
from trainers.rollout import GamesFailedError

VOTERS = ("all", "civilians", "referees")


def by_number(number, vote):
    """Votes and performances of every kind; those that end with a date are cut off."""
    if vote:
        return [r"\boxed{1}", r"\boxed{2}", r"\boxed{3}", "kiwi", r"\boxed{4}"][number % 5]
    return "plum date" if number % 3 == 0 else "plum"


def flat(rows):
    return [answer for row in rows for answer in row]


class Cluster:
    """A rollout, a coordinator and an engine in one process."""

    def __init__(self, run, script=None, engine="here"):
        self.engine, self.local, self.joined = ScriptedCalls(script), LocalCoordinator(run, engine), 0

        async def found(asked):
            self.joined += 1
            await asyncio.sleep(0)
            return self.local

        self.rollout = EngineRollout(found)

    async def row(self, row, calls=None, sampling=None, max_length=64):
        """All calls of a row at once, as OpenRLHF makes them."""
        text, sampling = to_json(row), sampling or params()
        return await asyncio.gather(
            *(self.rollout.sample(text, sampling, max_length, TOKENS, self.engine) for _ in range(calls or row.samples))
        )

    async def rows(self, rows):
        return await asyncio.gather(*(self.row(row) for row in rows))


def games_of(tmp_path, step=1):
    return list(read_games(tmp_path / f"games/step_{step:06d}.jsonl"))


def in_stage(run, stage, **baselines):
    """The run's start, in a stage and with baselines."""
    return replace(run, start=replace(run.start, stage=stage, baselines=baselines))


@pytest.mark.parametrize("stage", [Stage.PERFORMING, Stage.DETECTION])
@pytest.mark.parametrize("voters", VOTERS)
@pytest.mark.parametrize("samples", [4, 8])
def test_each_call_gets_its_own_seats_tokens_and_the_advantage_of_the_curriculum(tmp_path, voters, stage, samples):
    task = tiny_world.TASK
    baselines = {f"{task}/4/spy": -0.3, f"{task}/4/civilian": 0.1}
    run = settings(tmp_path, samples=samples, seed=11, game={"voters": voters, "referees": 3})
    run = in_stage(run, stage, **baselines)
    cluster = Cluster(run, by_number)
    answers = flat(asyncio.run(cluster.rows(prompt_rows(run, 2))))
    games = games_of(tmp_path)
    expected = run.start.advantages(games, stage)
    assert len(answers) == 2 * samples
    assert sorted(answer["reward"] for answer in answers if answer["reward"]) == pytest.approx(
        sorted(advantage for advantage in expected.values() if advantage)
    )
    assert any(expected.values())
    one_game = stage is Stage.DETECTION and voters == "referees"
    assert len(games) == (2 if one_game else 2 * samples // 4)
    if one_game:
        assert all(len(game.votes()) == samples for game in games)
    untrained = [answer for answer in answers if answer["action_ranges"][0][0] == len(answer["observation_tokens"]) - 1]
    spies = [answer for answer in answers if answer["extra_logs"]["game/role_spy"]]
    if stage is Stage.DETECTION and not one_game:
        assert len(spies) == len(games)
        assert all(spy in untrained and spy["reward"] == 0.0 for spy in spies)
    for answer in answers:
        begin, end = answer["action_ranges"][0]
        assert end == len(answer["observation_tokens"])
        assert len(answer["rollout_log_probs"]) == end
        assert answer["rollout_log_probs"][-1] == LOGPROB
        if answer not in untrained:
            assert answer["rollout_log_probs"] == [0.0] * begin + [LOGPROB] * (end - begin)


def test_two_rows_with_one_text_play_their_own_games(tmp_path):
    run = settings(tmp_path)
    first, second = prompt_rows(run, 2)
    second = replace(second, document=first.document)
    cluster = Cluster(run, by_number)
    asyncio.run(cluster.rows([first, second]))
    assert {game.seed for game in games_of(tmp_path)} == {"7/1/0/0", "7/1/1/0"}
    assert cluster.joined == 1


def test_all_games_of_all_rows_are_under_way_at_once(tmp_path):
    run = settings(tmp_path, batch_size=10, samples=16)
    cluster = Cluster(run)
    generate, performing = cluster.engine.generate, []

    async def once_all_perform(ids, sampling):
        performing.append(ids)
        while len(performing) < 160:  # an engine that answers nobody before all have asked
            await asyncio.sleep(0.001)
        return await generate(ids, sampling)

    async def within_a_minute():
        await asyncio.wait_for(cluster.rows(prompt_rows(run, 10)), 60)

    cluster.engine.generate = once_all_perform
    asyncio.run(within_a_minute())
    assert len(cluster.engine.asked) == 320
    assert len(games_of(tmp_path)) == 40


def test_the_engine_works_while_games_are_dealt_and_one_row_deals_at_a_time(tmp_path, monkeypatch):
    plain, dealing, at_once, asked = group_rollout.deal_games, [], [], []

    def slowly(row, *args):
        dealing.append(row.seed)
        at_once.append(len(dealing))
        time.sleep(0.1)
        asked.append(len(cluster.engine.asked))
        dealing.remove(row.seed)
        return plain(row, *args)

    monkeypatch.setattr(group_rollout, "deal_games", slowly)
    cluster = Cluster(settings(tmp_path, batch_size=3))
    asyncio.run(cluster.rows(prompt_rows(settings(tmp_path, batch_size=3), 3)))
    assert at_once == [1, 1, 1]
    assert asked == [0, 8, 16]  # a row is played to its end while the next one is dealt


def test_iterations_follow_one_another_and_deal_anew(tmp_path):
    run = settings(tmp_path, algo={"schedule": "cycle", "cycle": (1, 1)})
    cluster = Cluster(run, by_number)

    async def two_epochs():
        return [await cluster.rows(prompt_rows(run, 2)) for _ in range(2)]

    first, second = asyncio.run(two_epochs())
    assert {answer["extra_logs"]["game/detection"] for row in first for answer in row} == {1.0}
    assert {answer["extra_logs"]["game/detection"] for row in second for answer in row} == {0.0}
    assert [game.seed for game in games_of(tmp_path, 2)] == ["7/2/0/0", "7/2/1/0"]
    assert [line["stage"] for line in read_log(tmp_path / "metrics.jsonl")] == ["detection", "performing"]


def test_what_is_logged_has_the_same_names_in_both_stages_and_none_of_openrlhfs(tmp_path):
    names = []
    for stage in (Stage.PERFORMING, Stage.DETECTION):
        for split in ("train", "eval"):
            run = in_stage(settings(tmp_path / f"{stage}{split}"), stage)
            answers = flat(asyncio.run(Cluster(run, by_number).rows(prompt_rows(run, 2, split))))
            names += [tuple(answer["extra_logs"]) for answer in answers]
            assert all(type(value) is float for answer in answers for value in answer["extra_logs"].values())
    assert len(set(names)) == 1
    assert not {"reward", "score", "kl", "return"} & set(names[0])


def test_what_is_logged_is_what_happened(tmp_path):
    run = settings(tmp_path, batch_size=1)
    cluster = Cluster(run, lambda number, vote: (r"\boxed{1}" if number % 2 else "kiwi") if vote else "plum")
    (answers,) = asyncio.run(cluster.rows(prompt_rows(run, 1)))
    (game,) = games_of(tmp_path)
    cast = [game.votes()[voter] for voter in game.trained_voters]
    for answer, seat in zip(answers, game.players, strict=True):
        logged = answer["extra_logs"]
        assert logged["game/raw_reward"] == answer["scores"] == game.rewards(run.start.rewards).detection[seat]
        assert logged["game/role_spy"] == float(seat == game.spy)
        assert logged["game/hits"] == sum(vote == game.spy for vote in cast) / 3
        assert logged["game/unreadable"] == sum(vote == "unreadable" for vote in cast) / 3
        assert logged["game/unreadable"] > 0


@pytest.mark.parametrize("calls", [1, 3, 4, 6])
def test_evaluations_take_any_number_of_calls_and_tell_the_games_accuracy(tmp_path, calls):
    run = settings(tmp_path, eval_samples=calls)
    cluster = Cluster(run, by_number)
    rows = asyncio.run(cluster.rows(prompt_rows(run, 2, "eval")))
    games = list(read_games(tmp_path / "games/eval_000000.jsonl"))
    assert [len(row) for row in rows] == [calls] * 2
    assert len(games) == 2 * -(-calls // 4)
    for row, game in zip(rows, games[:: -(-calls // 4)], strict=True):
        cast = [game.votes()[voter] == game.spy for voter in game.trained_voters]
        assert row[0]["reward"] == sum(cast) / len(cast)
        begin, end = row[0]["action_ranges"][0]
        assert end - begin == len(row[0]["rollout_log_probs"]) - begin > 1
    assert cluster.local.calls == ["evaluated 0", "evaluated 1"]
    assert cluster.local.coordinator.iteration == 1


def test_the_same_deals_come_back_in_every_evaluation(tmp_path):
    run = settings(tmp_path)
    cluster = Cluster(run, by_number)

    async def twice():
        await cluster.rows(prompt_rows(run, 2, "eval"))
        first = list(read_games(tmp_path / "games/eval_000000.jsonl"))
        await cluster.rows(prompt_rows(run, 2, "eval"))
        return first, list(read_games(tmp_path / "games/eval_000000.jsonl"))

    first, second = asyncio.run(twice())
    assert [(game.seed, game.spy, game.hidden) for game in first] == [
        (game.seed, game.spy, game.hidden) for game in second
    ]


def test_prompts_fit_because_the_document_is_shortened_first(tmp_path):
    run = settings(tmp_path, max_len=56)
    (row,) = prompt_rows(run, 1)
    long = replace(row.document, text=" ".join(["plum fig pear kiwi lime date nothing"] * 40))
    cluster = Cluster(replace(run, batch_size=1))
    row = replace(row, document=long, run=replace(run, batch_size=1))
    asyncio.run(cluster.row(row, max_length=56))
    assert all(len(ids) + sampling.max_tokens <= 56 for ids, sampling in cluster.engine.asked)
    (game,) = games_of(tmp_path)
    assert 5 <= len(game.document.text.split()) < 280


def test_replies_are_sampled_as_openrlhf_wants_but_for_length_and_stop(tmp_path):
    sampling = {Stage.PERFORMING: Sampling(6, 0.7), Stage.DETECTION: Sampling(4, 0.7, r"\boxed{", "}")}
    run = settings(tmp_path, batch_size=1, sampling=sampling)
    cluster = Cluster(run, lambda number, vote: "1}" if vote else "plum")
    shared = params(0.7)
    asyncio.run(cluster.row(*prompt_rows(run, 1), sampling=shared))
    asked = [each for _, each in cluster.engine.asked]
    assert [each.max_tokens for each in asked] == [6] * 4 + [4] * 4
    assert {each.min_tokens for each in asked} == {0}
    assert [each.stop_token_ids for each in asked[::7]] == [[], [TOKENS.convert_tokens_to_ids("}")]]
    assert {each.temperature for each in asked} == {0.7}
    assert shared == params(0.7)  # it is every call's
    prefilled = TOKENS.convert_tokens_to_ids("\\boxed{")
    assert [ids[-1] == prefilled for ids, _ in cluster.engine.asked] == [False] * 4 + [True] * 4
    (game,) = games_of(tmp_path)
    assert set(game.votes().values()) == {"player_1"}


def test_without_log_probabilities_none_are_handed_back(tmp_path):
    run = settings(tmp_path, batch_size=1)
    answers = asyncio.run(Cluster(run).row(*prompt_rows(run, 1), sampling=params(logprobs=None)))
    assert [answer["rollout_log_probs"] for answer in answers] == [None] * 4


def test_a_reply_that_fails_once_is_played_again_from_the_same_deal(tmp_path):
    run = settings(tmp_path, batch_size=1)
    cluster = Cluster(run, lambda number, vote: OSError("cut") if number == 2 else by_number(number, vote))
    asyncio.run(cluster.row(*prompt_rows(run, 1)))
    assert len(cluster.engine.asked) == 4 + 4 + 4
    assert [game.seed for game in games_of(tmp_path)] == ["7/1/0/0"]


def test_a_row_that_cannot_be_played_tells_all_of_its_calls_and_the_others_go_on(tmp_path):
    run = settings(tmp_path)
    bad, good = prompt_rows(run, 2)
    mark = TOKENS(bad.document.text)["input_ids"]
    cluster = Cluster(run)
    generate = cluster.engine.generate

    async def failing(ids, sampling):
        if str(mark)[1:-1] in str(ids):
            raise OSError("the cable was cut")
        return await generate(ids, sampling)

    cluster.engine.generate = failing

    async def both():
        calls = [cluster.rollout.sample(to_json(bad), params(), 64, TOKENS, cluster.engine) for _ in range(4)]
        return await asyncio.gather(asyncio.gather(*calls, return_exceptions=True), cluster.row(good))

    told, answers = asyncio.run(both())
    assert [type(each) for each in told] == [GamesFailedError] * 4
    assert "game 7/1/0/0: player_" in str(told[0])
    assert "the engine raised OSError: the cable was cut" in str(told[0])
    assert len(answers) == 4
    assert "give_up 0" in cluster.local.calls
    assert cluster.local.coordinator.iteration == 1  # nothing is scored that did not happen
    asyncio.run(Cluster.row(with_engine(cluster, generate), bad))
    assert cluster.local.coordinator.iteration == 2


def with_engine(cluster, generate):
    cluster.engine.generate = generate
    return cluster


def test_a_reply_that_never_comes_ends_at_the_deadline(tmp_path):
    run = settings(tmp_path, batch_size=1, deadline_s=0.05)
    cluster = Cluster(run, lambda number, vote: asyncio.sleep(60))
    begun = time.monotonic()
    with pytest.raises(GamesFailedError, match=r"no reply within 0\.05 s"):
        asyncio.run(cluster.row(*prompt_rows(run, 1)))
    assert time.monotonic() - begun < 3


def test_a_call_that_never_comes_is_said_to_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(group_rollout, "MEETING_S", 0.05)
    run = settings(tmp_path, batch_size=1)
    cluster = Cluster(run)

    async def short_of_one_then_whole():
        (row,) = prompt_rows(run, 1)
        with pytest.raises(TimeoutError, match="3 of the 4 calls that play together came within"):
            await cluster.row(row, calls=3)
        return await cluster.row(row)

    assert len(asyncio.run(short_of_one_then_whole())) == 4
    assert not cluster.rollout._meetings


def test_a_coordinator_that_cannot_be_reached_is_asked_again_by_the_next_row(tmp_path):
    run = settings(tmp_path, batch_size=1)
    cluster, times = Cluster(run), []

    async def found(asked):
        times.append(asked)
        if len(times) == 1:
            raise ValueError("the folder holds a run already")
        return cluster.local

    cluster.rollout = EngineRollout(found)

    async def twice():
        with pytest.raises(ValueError, match="holds a run already"):
            await cluster.row(*prompt_rows(run, 1))
        await cluster.row(*prompt_rows(run, 1))

    asyncio.run(twice())
    assert times == [run, run]


@pytest.mark.parametrize(
    ("sampling", "max_length", "message"),
    [
        (params(), 65, "--data.max_len 65, and the prompt data set was prepared for 64"),
        (params(0.6), 64, "--rollout.temperature 0.6, and the prompt data set was prepared for 1.0"),
    ],
)
def test_openrlhf_runs_with_what_the_rows_were_prepared_for(tmp_path, sampling, max_length, message):
    run = settings(tmp_path, batch_size=1)
    with pytest.raises(ValueError, match=message):
        asyncio.run(Cluster(run).row(*prompt_rows(run, 1), sampling=sampling, max_length=max_length))


def test_sampling_that_bends_the_distribution_is_refused(tmp_path):
    run = settings(tmp_path, batch_size=1)
    bent = params()
    bent.top_p = 0.9
    with pytest.raises(ValueError, match=r"--rollout.top_p 0\.9"):
        asyncio.run(Cluster(run).row(*prompt_rows(run, 1), sampling=bent))


def test_evaluations_have_a_temperature_of_their_own(tmp_path):
    run = settings(tmp_path, eval_rows=1)
    assert len(asyncio.run(Cluster(run).row(*prompt_rows(run, 1, "eval"), sampling=params(0.6)))) == 3


@pytest.mark.parametrize("text", ["Summarise this.", "[1]", '{"version": 2}', "{}"])
def test_a_prompt_that_is_no_row_is_refused_with_the_way_out(tmp_path, text):
    cluster = Cluster(settings(tmp_path))
    with pytest.raises(ValueError, match=r"spyrl openrlhf|same spy-env"):
        asyncio.run(cluster.rollout.sample(text, params(), 64, TOKENS, cluster.engine))


@pytest.mark.parametrize(
    "algo", [{"rae": False}, {"schedule": "performing"}, {"schedule": "cycle", "cycle": (2, 3)}], ids=str
)
def test_a_row_comes_back_as_it_was(tmp_path, algo):
    run = settings(tmp_path, algo=algo, template_options={"enable_thinking": False})
    (row,) = prompt_rows(run, 1)
    assert from_json(to_json(row)) == row
