"""Those who don't learn: every kind really plays, and only the learner's replies are trained."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from spy_env import Stage, observe, read_games
from spy_env.observations import read_results
from spy_env.players import scripted_player, word_overlap_vote
from tests.chat_server import says
from tests.trainers import tiny_models, tiny_runs, tiny_world
from trainers.embedded.checkpoints import RunFolder
from trainers.embedded.lineup import drawn_at
from trainers.embedded.loop import _opponents
from trainers.embedded.policy import Policy, policy_of
from trainers.engines import Request, Sampling
from trainers.engines.local import load_engine
from trainers.rollout import GamesFailedError, SeatPolicies

P, D = Stage.PERFORMING, Stage.DETECTION
SPY_TO_LEARN = {"algo": {"schedule": "performing"}, "game": {"unreadable": -1.0}, "eval": {"games": 0}}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    tiny_world.model_folder(place / "model", steps=60)
    tiny_models.save("llama", place / "llama")
    return place


@pytest.fixture
def trained_on(monkeypatch) -> list[list]:
    """The samples of each update of the runs in this test."""
    updates: list[list] = []
    whole = Policy.update

    def update(self, samples, advantages):
        updates.append(list(samples))
        return whole(self, samples, advantages)

    monkeypatch.setattr(Policy, "update", update)
    return updates


def run(place, output, **groups):
    return tiny_runs.run(tiny_runs.config_of(place, place / "model", output, **groups)).folder


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def games(folder, steps=2):
    return [game for step in range(1, steps + 1) for game in read_games(folder / "games" / f"step_{step:06d}.jsonl")]


def said(game, stage, roles):
    """What seats of these roles were told and what they said."""
    prompts = observe(game, stage)
    return [(prompts[seat], reply.text) for seat, reply in game.replies[stage].items() if game.role(seat) in roles]


def test_scripted_civilians_play_by_script_and_only_the_spys_replies_are_trained(place, trained_on):
    groups = {**SPY_TO_LEARN, "opponents": {"civilian": "scripted"}, "train": {"iterations": 2}}
    folder = run(place, "scripted", **groups)
    script = scripted_player()
    for game in games(folder):
        for stage in (P, D):
            assert len(said(game, stage, ["civilian"])) == 3
            assert all(reply == script(prompt) for prompt, reply in said(game, stage, ["civilian"]))
    spies = {(game.seed, game.spy) for game in games(folder)}
    samples = [sample for update in trained_on for sample in update]
    assert {(sample.game, sample.seat) for sample in samples} == spies
    assert len(samples) == len(spies) == 6
    texts = {(game.seed, game.spy): game.replies[P][game.spy].text for game in games(folder)}
    tokens = tiny_world.tokenizer()
    for sample in samples:
        assert tokens.decode(sample.ids, skip_special_tokens=True) == texts[sample.game, sample.seat]
    rows = metrics(folder)
    assert [row["num_samples"] for row in rows] == [3, 3]
    assert [row["opponent/civilian"] for row in rows] == ["scripted", "scripted"]
    assert rows[0]["reward"] == rows[0]["game/learner/reward_performing"] == rows[0]["game/reward_performing/spy"]
    assert rows[0]["completions/clipped_ratio"] == rows[0]["game/learner/truncated/performing"]


def test_against_a_random_spy_the_civilians_train_in_both_stages(place, trained_on):
    groups = {
        "eval": {"games": 0},
        "algo": {"cycle": [1, 1]},
        "opponents": {"spy": "random"},
        "train": {"iterations": 2},
    }
    folder = run(place, "random", **groups)
    spies = {game.seed: game.spy for game in games(folder)}
    for stage, samples in zip((D, P), trained_on, strict=True):
        assert [sample.stage for sample in samples] == [stage] * 9
        assert {sample.role for sample in samples} == {"civilian"}
        assert all(sample.seat != spies[sample.game] for sample in samples)
    for game in games(folder):
        ((prompt, performance),) = said(game, P, ["spy"])
        assert performance in prompt  # a sentence of its document


def test_the_learner_may_be_the_jury_alone(place, trained_on):
    groups = {
        "algo": {"schedule": "detection"},
        "game": {"voters": "referees", "referees": 2},
        "opponents": {"spy": "scripted", "civilian": "random"},
        "train": {"iterations": 2},
        "eval": {"games": 0},
    }
    folder = run(place, "jury", **groups)
    assert [len(samples) for samples in trained_on] == [6, 6]
    assert {sample.role for samples in trained_on for sample in samples} == {"referee"}
    assert {(row["opponent/spy"], row["opponent/civilian"]) for row in metrics(folder)} == {("scripted", "random")}


def test_an_endpoint_plays_the_spy(place, serve):
    server = serve(lambda prompt, times: says(r"\boxed{2}" if read_results(prompt) else "kiwi"))
    player = f"endpoint:{server.url}#a-model"
    folder = run(place, "endpoint", opponents={"spy": player}, train={"iterations": 2}, eval={"games": 0})
    assert {reply for game in games(folder) for _, reply in said(game, P, ["spy"])} == {"kiwi"}
    assert {game.votes()[game.spy] for game in games(folder)} == {"player_2"}
    assert len(server.received) == 2 * 6
    assert {row["opponent/spy"] for row in metrics(folder)} == {player}


def test_an_endpoint_that_fails_for_good_ends_the_run_and_names_the_games(place, serve):
    server = serve(lambda prompt, times: says(None))
    with pytest.raises(GamesFailedError, match="42/1/0"):
        run(place, "failing", opponents={"spy": f"endpoint:{server.url}#m"}, eval={"games": 0})
    assert not (place / "failing" / "metrics.jsonl").exists(), "nothing is trained on a short batch"


def test_a_frozen_model_plays_the_spy_and_its_folder_stays_as_it_is(place):
    before = {file.name: file.read_bytes() for file in (place / "llama").iterdir()}
    folder = run(
        place, "frozen", opponents={"spy": f"model:{place / 'llama'}"}, train={"iterations": 3}, eval={"games": 0}
    )
    assert {file.name: file.read_bytes() for file in (place / "llama").iterdir()} == before
    frozen = load_engine(str(place / "llama"))
    for game in games(folder, 3):
        ((prompt, reply),) = said(game, P, ["spy"])
        asked = Request(prompt, f"{game.seed}/{P}/{game.spy}", Sampling(4))
        assert frozen.generate([asked])[0].text == reply


def test_the_table_of_an_iteration_seats_the_one_that_is_drawn_for_it(place):
    groups = {"opponents": {"spy": "past", "civilian": "past", "referee": "", "pool": 3}, "ckpt": {"save_steps": 2}}
    groups |= {"game": {"voters": "referees", "referees": 2}, "algo": {"schedule": "detection"}}
    config = tiny_runs.config_of(place, place / "model", "drawn", **groups)
    policy = policy_of(config, str(place / "model"))
    others = _opponents(config, policy, RunFolder(config.ckpt))
    seats = SeatPolicies(policy.engine, config.sampling, config.data.max_len)
    for step in range(1, 20):
        drawn = drawn_at(step, 42, 2, 3)
        assert others.names_at(step) == {"spy": f"past:{drawn}", "civilian": f"past:{drawn}"}
        seated = others.seats_at(seats, step).others
        assert set(seated) == {"spy", "civilian"}
        assert seated["spy"] is seated["civilian"], "one batch, and one model"
    assert others.seats_at(seats, 1).others["spy"] is not others.seats_at(seats, 19).others["spy"]
    assert others.of_evaluations is None


def test_a_model_that_is_not_there_is_refused_before_anything_is_played(place):
    with pytest.raises(ValueError, match="no model at"):
        run(place, "nowhere", opponents={"spy": f"model:{place / 'no-such-model'}"})
    assert not list((place / "nowhere" / "games").iterdir())


def test_opponents_referees_judge_held_out_games_too_and_a_past_self_does_not(place):
    for referee, judges in (("scripted", True), ("coverage", True), ("past", False)):
        groups = {"opponents": {"spy": "scripted", "referee": referee}, "algo": {"schedule": "performing"}}
        config = tiny_runs.config_of(
            place, place / "model", f"judged-{referee}", game={"voters": "referees", "referees": 2}, **groups
        )
        policy = policy_of(config, str(place / "model"))
        others = _opponents(config, policy, RunFolder(config.ckpt))
        seats = SeatPolicies(policy.engine, config.sampling, config.data.max_len)
        assert set(others.judging(seats).others) == ({"referee"} if judges else set())
    folder = run(
        place,
        "judged",
        game={"voters": "referees", "referees": 2},
        opponents={"spy": "", "referee": "scripted"},
        algo={"schedule": "performing"},
        train={"iterations": 1},
    )
    for point in ("before", "after"):
        for game in read_games(folder / "games" / f"eval_{point}.jsonl"):
            prompts = observe(game, D)
            for voter, reply in game.replies[D].items():
                assert reply.text == word_overlap_vote(prompts[voter])
