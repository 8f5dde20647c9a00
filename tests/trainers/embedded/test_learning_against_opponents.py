"""What self-play can't show: whole runs against a scripted opponent, whose curves rise while rewards in self-play sum to
nothing before and after."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="learning needs the train extra")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("rich", reason="the display is made of it")

from spy_env.observations import read_results
from tests.trainers import tiny_runs
from tests.trainers.tiny_world import MARK, model_folder, said, vote_for_one_without_the_mark
from trainers.engines import players as seat_players

pytestmark = pytest.mark.slow
HELD_OUT = 32


def wants_the_mark(prompt: str) -> str:
    """Performs with the mark, and votes for one who didn't."""
    return vote_for_one_without_the_mark(prompt) if read_results(prompt) else said(MARK)


def test_a_spy_learns_to_pass_for_a_scripted_civilian_and_its_curve_shows_what_self_play_can_not(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(seat_players, "scripted_player", lambda: wants_the_mark)
    tiny_runs.write_corpus(tmp_path / "documents.jsonl", HELD_OUT + 64)
    config = tiny_runs.config_of(
        tmp_path,
        model_folder(tmp_path / "model"),
        game={"voters": "civilians"},
        algo={"schedule": "performing"},
        opponents={"civilian": "scripted"},
        eval={"games": HELD_OUT, "opponent": "scripted", "steps": 5},
        rollout={"batch_size": 64, "micro_batch_size": 512},
        train={"iterations": 15, "micro_batch_size": 512},
        ckpt={"save_steps": 100},
    )
    folder = tiny_runs.run(config).folder
    curve = [json.loads(line) for line in (folder / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["step"] for row in curve] == [0, 5, 10, 15]
    first, last = curve[0], curve[-1]
    assert first["learner spy: not caught"] < 0.4  # one word in six is the mark
    assert last["learner spy: not caught"] > 0.9
    assert last["learner spy: votes received"] < 0.5 < 2 < first["learner spy: votes received"]
    reward = "learner spy: performing reward"
    assert last["intervals"][reward][0] > first["intervals"][reward][1], "the intervals are apart"
    assert last["learner on both sides: performing reward"] > first["learner on both sides: performing reward"] + 0.1
    for row in curve:
        in_self_play = row["performing reward, spy"] + 3 * row["performing reward, civilian"]
        assert in_self_play == pytest.approx(0, abs=1e-12)
    trained = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["num_samples"] for row in trained} == {64}  # the spy's, one a game
    assert trained[-1]["game/learner/reward_performing"] > trained[0]["game/learner/reward_performing"] + 0.1
