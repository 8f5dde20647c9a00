"""verl's own classes on a CPU: its config, its data set, its estimators, one loop without Ray."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.trainers import tiny_world
from tests.trainers.tiny_models import save

pytest.importorskip("verl", reason="its classes are used")
import torch
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.config.optimizer import build_optimizer

from spy_env import read_games
from tests.trainers.engines.called_engines import LocalCoordinator
from tests.trainers.verl.verl_runs import composed, config_of, rows_of
from tests.trainers.verl.verl_scripted import ScriptedClient
from trainers.cluster.prompt_rows import from_json
from trainers.config import Adam, Kl
from trainers.rollout import GamesFailedError
from trainers.verl.agent import SpyAgentLoop
from trainers.verl.command import check_config, prepare, run_of
from trainers.verl.estimator import advantages_as_they_are
from trainers.verl.launch import FIXED, check_as_prepared

pytestmark = pytest.mark.verl
ROOT = Path(__file__).parents[3]


def test_the_command_is_read_by_verls_own_config_and_fits_the_rows(tmp_path):
    config = config_of(tmp_path / "run", "some/model", **{"actor.adam": Adam(eps=1e-6)})
    found = composed(config, tmp_path / "run")
    validate_config(found, use_reference_policy=need_reference_policy(found), use_critic=need_critic(found))
    assert need_reference_policy(found)
    assert not need_critic(found)
    check_as_prepared(found, run_of(config, tmp_path / "run"), {"temperature": 1.0})
    rollout = omega_conf_to_dataclass(found.actor_rollout_ref.rollout)
    assert (rollout.n, rollout.max_model_len, rollout.response_length) == (4, 64, 6)
    assert omega_conf_to_dataclass(found.algorithm).adv_estimator == "spyrl"
    actor = omega_conf_to_dataclass(found.actor_rollout_ref.actor)
    assert (actor.use_kl_loss, actor.kl_loss_coef, actor.kl_loss_type) == (True, 0.001, "low_var_kl")
    assert list(actor.optim.betas) == [0.9, 0.95]
    assert build_optimizer([torch.nn.Parameter(torch.zeros(1))], actor.optim).defaults["eps"] == 1e-6


@pytest.mark.parametrize(
    "changed",
    [
        "trainer.use_v1=False",
        "trainer.v1.trainer_mode=colocate_async",
        "algorithm.adv_estimator=grpo",
        "algorithm.use_kl_in_reward=True",
        "algorithm.filter_groups.enable=True",
        "data.train_batch_size=4",
        "data.max_response_length=9",
        "actor_rollout_ref.rollout.n=8",
        "actor_rollout_ref.rollout.val_kwargs.n=1",
        "actor_rollout_ref.rollout.top_p=0.9",
        "actor_rollout_ref.rollout.full_determinism=True",
        "actor_rollout_ref.rollout.max_model_len=128",
    ],
)
def test_verl_with_other_settings_than_the_rows_is_refused(tmp_path, changed):
    config = config_of(tmp_path / "run")
    found = composed(config, tmp_path / "run", changed)
    with pytest.raises(ValueError, match=changed.replace("[", r"\[") + ".*spyrl verl prints"):
        check_as_prepared(found, run_of(config, tmp_path / "run"), {"temperature": 1.0})


def test_another_temperature_than_the_rows_is_refused_in_training_alone(tmp_path):
    config = config_of(tmp_path / "run")
    found, run = composed(config, tmp_path / "run"), run_of(config, tmp_path / "run")
    check_as_prepared(found, run, None)
    with pytest.raises(ValueError, match=r"temperature=0\.5"):
        check_as_prepared(found, run, {"temperature": 0.5})


def test_verls_data_set_hands_on_the_rows(tmp_path):
    config = config_of(tmp_path / "run")
    rows = rows_of(config, tmp_path / "run")
    data = OmegaConf.create(OmegaConf.to_container(composed(config, tmp_path / "run").data))
    read = RLHFDataset(str(tmp_path / "run/rows/train.jsonl"), tiny_world.tokenizer(), data)
    assert len(read) == len(rows["train"]) == 6
    for i in range(6):
        row = from_json(read[i]["raw_prompt"][0]["content"])
        assert (row.seed, row.run) == (f"train-{i}", run_of(config, tmp_path / "run"))
        assert read[i]["index"] == i


def test_verl_loads_the_estimator_as_a_plugin_and_hands_advantages_on():
    plugins = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["verl.plugins"]
    assert plugins == {"spyrl": "trainers.verl.estimator"}
    assert ADV_ESTIMATOR_REGISTRY["spyrl"] is advantages_as_they_are
    mask = torch.tensor([[1, 1, 1, 0], [0, 0, 1, 0], [1, 1, 0, 0]])
    rewards = torch.zeros(3, 4)
    rewards[[0, 1, 2], [2, 2, 1]] = torch.tensor([0.25, 0.0, -1.5])
    data = DataProto(batch=None).from_dict(
        {"token_level_rewards": rewards, "response_mask": mask},
        non_tensors={"uid": np.array(["a", "a", "b"], dtype=object)},
    )
    found = compute_advantage(data, "spyrl", config=OmegaConf.create({})).batch
    assert found["advantages"].tolist() == [[0.25, 0.25, 0.25, 0], [0, 0, 0, 0], [-1.5, -1.5, 0, 0]]


@pytest.fixture
def loops(tmp_path, monkeypatch):
    """Makes loops as verl's worker does, with a coordinator in this process."""
    config = config_of(tmp_path / "run", save("llama", tmp_path / "model"))
    rows = rows_of(config, tmp_path / "run")
    verl = composed(config, tmp_path / "run")
    coordinator = LocalCoordinator(run_of(config, tmp_path / "run"))

    async def find_coordinator(run):
        return coordinator

    monkeypatch.setattr(SpyAgentLoop, "find_coordinator", find_coordinator)
    tokens = tiny_world.tokenizer()

    def loop(client):
        wrap = SimpleNamespace
        return SpyAgentLoop(wrap(config=verl), client, tokens, None, RLHFDataset, wrap(config=verl.data))

    return SimpleNamespace(rows=rows, loop=loop, coordinator=coordinator, folder=tmp_path / "run")


def row(loops, number, client, step=1, split="train", calls=4, **fields):
    line = loops.rows[split][number]
    return [
        loops.loop(client).run(
            {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True},
            **{"raw_prompt": line["prompt"], "global_steps": step, "uid": str(number), "session_id": i} | fields,
        )
        for i in range(calls)
    ]


def play(*calls):
    async def together():
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(together())


def test_the_samples_of_a_prompt_are_the_seats_of_one_game(loops):
    client, tokens = ScriptedClient(), tiny_world.tokenizer()
    outputs = play(*row(loops, 0, client), *row(loops, 1, client))
    assert [output.reward_score is not None for output in outputs] == [True] * 8
    assert loops.coordinator.calls[:2] == ["begin train-0", "begin train-1"]
    assert len((loops.folder / "games/step_000001.jsonl").read_text().splitlines()) == 2
    curriculum = run_of(config_of(loops.folder), loops.folder).start
    played = list(read_games(loops.folder / "games/step_000001.jsonl"))
    advantages = curriculum.advantages(played, curriculum.stage)
    for game, samples in zip(sorted(played, key=lambda game: game.seed), (outputs[:4], outputs[4:]), strict=True):
        for seat, sample in zip(game.players, samples, strict=True):
            assert tokens.decode(sample.response_ids, skip_special_tokens=True) == game.replies["detection"][seat].text
            assert sample.reward_score == advantages.get((game.seed, seat), 0.0)
    for game in (outputs[:4], outputs[4:]):
        assert sum(output.reward_score for output in game) == pytest.approx(0, abs=1e-5)
        assert sorted(sum(output.response_mask) == 1 for output in game) == [
            False,
            False,
            False,
            True,
        ]  # the spy's vote
        assert len({tuple(output.prompt_ids) for output in game}) == 2  # civilians vote on the same bytes


def test_a_step_that_is_not_the_coordinators_is_refused(loops):
    outputs = play(*row(loops, 0, ScriptedClient(), step=5))
    assert all("at step 5 and the coordinator at iteration 1" in str(output) for output in outputs)
    assert loops.coordinator.calls[-1] == "give_up train-0"


def test_an_engine_that_stays_away_fails_the_row_and_scores_nothing(loops):
    outputs = play(*row(loops, 0, ScriptedClient(fails=99)))
    assert {type(output) for output in outputs} == {GamesFailedError}
    assert not list((loops.folder / "games").glob("*"))


def test_the_trainer_that_tells_no_session_is_refused(loops):
    call = row(loops, 0, ScriptedClient(), calls=1)[0]
    call.close()
    fields = {"raw_prompt": loops.rows["train"][0]["prompt"], "global_steps": 1}
    (output,) = play(loops.loop(ScriptedClient()).run({"temperature": 1.0}, **fields))
    assert "trainer.use_v1=False" in str(output)


def test_evaluations_score_with_the_accuracy_of_their_games(loops):
    outputs = play(
        *row(loops, 0, ScriptedClient(), split="eval", step=0), *row(loops, 1, ScriptedClient(), split="eval", step=0)
    )
    for output in outputs:
        assert output.reward_score == output.extra_fields["reward_extra_info"]["game/hits"]
    assert json.loads((loops.folder / "evaluations.jsonl").read_text())["step"] == 0


def test_a_folder_that_holds_a_run_is_only_gone_on_with(tmp_path):
    folder = tmp_path / "run"
    prepare(config_of(folder), folder, print)
    (folder / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="holds a run already"):
        prepare(config_of(folder), folder, print)
    prepare(config_of(folder, **{"ckpt.load_enable": True}), folder, print)
    with pytest.raises(ValueError, match=r"made with --eval\.games 2, and now it is 3"):
        prepare(config_of(folder, **{"ckpt.load_enable": True, "eval.games": 3}), folder, print)


def test_a_run_that_goes_on_keeps_its_rows_and_more_iterations_add_to_them(tmp_path):
    folder = tmp_path / "run"
    going_on = {"ckpt.load_enable": True}
    before = rows_of(config_of(folder), folder)
    again = rows_of(config_of(folder, **going_on), folder)
    longer = rows_of(config_of(folder, **going_on, **{"train.iterations": 5}), folder)
    for rows in (again, longer):
        kept = [json.loads(line["prompt"][0]["content"]) for line in rows["train"][:6]]
        assert [row["document"] for row in kept] == [document_of(line) for line in before["train"]]
    assert (len(again["train"]), len(longer["train"])) == (6, 10)
    other = config_of(folder, **going_on, **{"train.iterations": 6})
    documents = Path(other.data.documents)
    documents.write_text("".join(reversed(documents.read_text().splitlines(keepends=True))))
    with pytest.raises(ValueError, match="other documents or another order than now"):
        prepare(other, folder, print)


def document_of(line):
    return json.loads(line["prompt"][0]["content"])["document"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"algo.schedule": "joint"}, "--algo.schedule is 'joint'.* with spyrl train"),
        ({"algo.warm_start": 8}, "fits nothing before it trains"),
        ({"algo.shuffle_advantages": True}, "over a whole iteration"),
        ({"rollout.n_samples_per_prompt": 6}, "no multiple of --game.players"),
        ({"rollout.batch_size": 0}, "at least 1"),
        ({"rollout.deadline_s": 0}, "at least 1"),
        ({"actor.num_gpus_per_node": 0}, "at least 1"),
        ({"algo.kl": Kl(-0.1)}, "at least 0"),
        ({"rollout.temperature": 0.001}, "vLLM samples at"),
        ({"rollout.chat_template_kwargs": "{"}, "not JSON"),
        ({"opponents.spy": "random"}, "one model plays all seats here"),
        ({"ds.ring_attn_size": 2}, "--ds.ring_attn_size is 2: give verl's own setting"),
        ({"train.num_episodes": 2}, "--train.num_episodes is 2: this trainer has nothing like it"),
        ({"train.batch_size": 4}, "--train.batch_size is 4: this trainer has nothing like it"),
    ],
)
def test_settings_that_verl_cannot_follow_are_refused(tmp_path, flags, message):
    with pytest.raises(ValueError, match=message):
        check_config(config_of(tmp_path / "run", **flags))


def test_settings_that_verl_can_follow_are_not(tmp_path):
    check_config(config_of(tmp_path / "run", **{"algo.patience": 9, "actor.max_norm": 2.0, "rollout.engine": "vllm"}))
    assert FIXED["trainer.v1.trainer_mode"] == "sync"
