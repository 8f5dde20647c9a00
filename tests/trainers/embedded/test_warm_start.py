"""Warm start: right votes as samples, their cross-entropy, and runs that begin with it and go on after a kill."""

# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import shutil

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")

from spy_env import RawReply, Stage, read_games
from tests.spy_env.doors import SEATS, dealt
from tests.trainers import tiny_runs, tiny_world
from tests.trainers.embedded import policies
from tests.trainers.embedded.test_resume import KilledError, assert_same, killing
from trainers.disk import read_log
from trainers.embedded.lineup import check
from trainers.embedded.warm_start import right_vote, right_votes
from trainers.engines import Reply, Sampling
from trainers.rollout import Played

BOX = Sampling(6, prefill="\\boxed{", stop="}")


class Letters:
    """A tokenizer of characters."""

    eos_token_id = 0

    def encode(self, text, add_special_tokens):
        assert not add_special_tokens
        return [ord(letter) for letter in text]

    def decode(self, ids):
        return "".join(map(chr, ids))


def played(table, spy="player_2"):
    game = dealt(table)
    game = game.with_replies({seat: RawReply(f"Summary: text of {SEATS.index(seat)}") for seat in game.players})
    game = game.with_replies({seat: RawReply("\\boxed{1}") for seat in game.voters})
    replies = {seat: Reply("\\boxed{1}", ids=(1,), prompt_ids=(10, SEATS.index(seat))) for seat in game.voters}
    return Played(game, {Stage.DETECTION: replies})


@pytest.mark.parametrize("table", ["all", "all voter", "referees voter", "civilians"])
def test_a_right_vote_read_back_names_the_spy_and_the_spy_has_none(table):
    one = played(table)
    samples = right_votes([one], Letters(), BOX, ("spy", "civilian", "referee"))
    assert {sample.seat for sample in samples} == set(one.game.trained_voters)
    assert one.game.spy not in {sample.seat for sample in samples}
    for sample in samples:
        assert one.game.read_vote(sample.seat, BOX.prefill + Letters().decode(sample.ids)) == one.game.spy
        assert sample.stage is Stage.DETECTION
        assert sample.prompt_ids == one.replies[Stage.DETECTION][sample.seat].prompt_ids


def test_voters_with_one_prompt_have_one_sample_and_opponents_none():
    one = played("all")
    same = {seat: Reply("", ids=(1,), prompt_ids=(10,)) for seat in one.game.voters}
    same[one.game.spy] = Reply("", ids=(1,), prompt_ids=(11,))
    shared = Played(one.game, {Stage.DETECTION: same})
    assert len(right_votes([shared], Letters(), BOX, ("spy", "civilian"))) == 1
    assert right_votes([shared], Letters(), BOX, ("spy",)) == []


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (BOX, "{}}}"),
        (Sampling(6), "\\boxed{{{}}}"),
        (Sampling(6, prefill="The spy is "), "\\boxed{{{}}}"),
        (Sampling(6, prefill="The spy is \\boxed{", stop="}"), "{}}}"),
    ],
)
def test_the_answer_goes_on_from_the_prefill(sampling, expected):
    game = played("all voter").game
    number = game.ballot("player_1").index(game.spy) + 1
    assert right_vote(game, "player_1", sampling) == expected.format(number)


def test_without_a_stop_the_answer_ends_the_turn():
    (sample, *_) = right_votes([played("all")], Letters(), Sampling(6), ("civilian",))
    assert sample.ids[-1] == Letters.eos_token_id
    assert right_votes([played("all")], Letters(), BOX, ("civilian",))[0].ids[-1] == ord("}")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model and an uninterrupted run: two iterations of warm start, three of training."""
    place = tmp_path_factory.mktemp("runs")
    tiny_world.model_folder(place / "model", steps=20)
    tiny_runs.run(warm(place, "whole"))
    return place


def warm(place, output, games=4, iterations=3, **groups):
    """A config with a warm start of ``games``, three an iteration."""
    algo = {"schedule": "cycle", "cycle": [2, 1], "warm_start": games}
    ballots = {"game": {"ballot_order": "voter"}}
    return tiny_runs.config_of(
        place, place / "model", output, algo=algo, train={"iterations": iterations}, **ballots, **groups
    )


def test_games_are_rounded_up_to_iterations_that_come_before_training_and_are_named(place):
    rows = read_log(place / "whole" / "metrics.jsonl")
    assert [row["stage"] for row in rows] == ["warm_start"] * 2 + ["detection"] * 2 + ["performing"]
    for step in (1, 2):
        games = list(read_games(place / "whole" / "games" / f"step_{step:06d}.jsonl"))
        assert [game.seed for game in games] == [f"42/warm_start/{step}/{i}" for i in range(3)]
        assert all(game.stage is Stage.OVER and game.trained is Stage.DETECTION for game in games)
    assert not any(value for row in rows[:2] for name, value in row.items() if name.startswith("game/baseline/"))
    assert rows[1]["update_norm/warm_start"] > 0


@pytest.mark.parametrize("at", [3, 5, 6, 8])
def test_a_run_killed_in_its_warm_start_goes_on_to_the_same(place, at):
    try:
        with pytest.raises(KilledError):
            tiny_runs.run(warm(place, "stopped"), killing(at))
        tiny_runs.run(warm(place, "stopped", ckpt={"load_enable": True}))
        assert_same(place / "stopped", place / "whole")
    finally:
        shutil.rmtree(place / "stopped")


def test_a_resume_with_another_warm_start_is_refused(place):
    with pytest.raises(ValueError, match="warm_start"):
        tiny_runs.run(warm(place, "whole", games=7, ckpt={"load_enable": True}))


def test_right_votes_become_likelier(place):
    tiny_runs.run(warm(place, "long", games=90, iterations=1, actor={"adam": {"lr": 1e-3}}))
    losses = [row["loss"] for row in read_log(place / "long" / "metrics.jsonl") if row["stage"] == "warm_start"]
    assert len(losses) == 30
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


@pytest.mark.parametrize("shared", ["auto", "off"])
def test_the_gradient_is_that_of_cross_entropy(place, shared):
    policy = policies.policy_of(
        str(place / "model"), actor={"shared_prompts": shared, "max_norm": 1e9, "adam": {"lr": 0.0}}
    )
    samples = [
        policies.sample(0, "plum", (6, 9), logprobs=()),
        policies.sample(1, "plum", (5, 7, 8), logprobs=()),
        policies.sample(2, "fig pear", (6,), logprobs=()),
    ]
    metrics = policy.fit(samples)
    ours = [parameter.grad.clone() for parameter in policy.trained]
    policy.optimizer.zero_grad()
    losses = []
    for sample in samples:
        ids = torch.tensor([[*sample.prompt_ids, *sample.ids]])
        logits = policy.model(ids).logits[0, len(sample.prompt_ids) - 1 : -1] / policy.temperature
        losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor(sample.ids), reduction="sum"))
    loss = sum(losses) / 6
    loss.backward()
    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-5)
    for mine, parameter in zip(ours, policy.trained, strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-4, atol=1e-6)


def test_where_opponents_cast_all_votes_it_is_refused(place):
    config = tiny_runs.config_of(
        place,
        place / "model",
        algo={"warm_start": 3, "schedule": "performing"},
        game={"voters": "referees"},
        opponents={"referee": "scripted"},
    )
    with pytest.raises(ValueError, match=r"--algo\.warm_start is 3, and opponents cast all votes"):
        check(config)
