"""By which rules games were paid stands beside them, whichever trainer played them. Without TRL and verl."""

from __future__ import annotations

import json

import pytest

from spy_env import RewardRules
from spy_env.viewer.origin import CONFIGS, origin_of
from tests.trainers.verl.verl_runs import config_of
from trainers.config import Data, GameConfig, StageSampling
from trainers.inspection.revoting import frozen_detector
from trainers.inspection.runs import read_runs
from trainers.trl.config import Games
from trainers.verl.command import prepare


class Arguments:
    """What the folder says of ``GRPOConfig``."""

    max_completion_length, temperature, chat_template_kwargs = 40, 0.7, None


def with_verl(folder):
    prepare(config_of(folder, "some/model", **{"game.unreadable": -2.0}), folder, print)


def with_trl(folder):
    game = GameConfig(players=4, unreadable=-2.0)
    row = Games(game, data=Data(max_len=1024), detection=StageSampling(prefill="so")).run_row(Arguments, "some/model")
    folder.mkdir()
    (folder / CONFIGS[1]).write_text(json.dumps(row), encoding="utf-8")
    (folder / CONFIGS[0]).write_text('{"model_type": "gpt2"}', encoding="utf-8")  # the model is saved there


@pytest.mark.parametrize("begin", [with_verl, with_trl])
def test_a_run_is_scored_by_its_own_rules_and_compared_with_its_own_first_model(tmp_path, begin):
    begin(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").touch()
    origin = origin_of(tmp_path / "run" / "games" / "step_000001.jsonl")
    assert origin.rewards == RewardRules(unreadable=-2.0)
    assert origin.baselines == {}  # there are none before the first iteration
    (run,) = read_runs([tmp_path / "run"])
    assert run.notes == ()
    assert run.chance == 1 / 4
    frozen = frozen_detector("initial", run)
    assert frozen.identity.startswith("model:some/model")
    asked = frozen.sampling.max_new_tokens, frozen.sampling.prefill
    assert asked == ((40, "so") if begin is with_trl else (4, ""))
