"""verl's own workers, queue and buffer on real Ray, with our loop in them; only the engine is scripted."""

# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="verl's workers are its actors")
pytest.importorskip("verl", reason="its workers run")
tq = pytest.importorskip("transfer_queue", reason="verl's samples go through it")
import torch
from verl.protocol import DataProto
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils import tensordict_utils

from spy_env import Stage, read_games
from tests.trainers.tiny_models import save
from tests.trainers.verl.verl_runs import composed, config_of, rows_of
from tests.trainers.verl.verl_scripted import ScriptedClient
from trainers.cluster.prompt_rows import from_json
from trainers.curriculum import Curriculum

pytestmark = pytest.mark.verl
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cluster():
    """Ray here, with invented CPUs: workers do nothing but wait."""
    paths = str(ROOT)
    ray.init(
        num_cpus=16,
        include_dashboard=False,
        configure_logging=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()


class Trainer:
    """What verl's trainer does with an iteration's samples, up to the advantages."""

    def __init__(self, folder, model, **flags):
        self.config = config_of(folder, model, **flags)
        self.verl = composed(self.config, folder)
        self.rows = rows_of(self.config, folder)
        tq.init(self.verl.transfer_queue)
        self.manager = AgentLoopManagerTQ.create(config=self.verl, llm_client=ScriptedClient())
        sampler = self.verl.trainer.v1.sampler
        self.buffer = ReplayBuffer("sync", self.verl.trainer, 8, "drop", sampler.sampler_kwargs, poll_interval=0.2)

    def step(self, number, partition="train", broken=False):
        """The samples of an iteration by their keys, as they come out of the queue; ``broken`` spoils its first row."""
        split, size = ("train", self.config.rollout.batch_size) if partition == "train" else ("eval", 2)
        begin = (number - 1) * size if partition == "train" else 0
        lines = self.rows[split][begin : begin + size]
        chats = [line["prompt"] for line in lines]
        if broken:
            chats[0] = [{"role": "user", "content": "no row"}]
        batch = {
            "raw_prompt": np.array(chats, dtype=object),
            "index": np.array([line["extra_info"]["index"] for line in lines], dtype=object),
            "reward_model": np.array([line["reward_model"] for line in lines], dtype=object),
            "data_source": np.array([line["data_source"] for line in lines], dtype=object),
            "uid": np.array([f"uid{partition}{number}x{i}" for i in range(size)], dtype=object),
        }
        prompts = tensordict_utils.get_tensordict(batch)
        tensordict_utils.assign_non_tensor_data(prompts, "global_steps", number)
        if partition == "val":
            tensordict_utils.assign_non_tensor_data(prompts, "validate", True)
        tags = [{"is_prompt": True, "status": "pending", "global_steps": number} for _ in lines]
        tq.kv_batch_put(keys=list(batch["uid"]), partition_id=partition, tags=tags)
        self.manager.generate_sequences(prompts)
        found, _ = self.buffer.sample(number, partition, size)
        fields = ["uid", "prompts", "responses", "response_mask", "rm_scores", "rollout_log_probs", "extra_fields"]
        data = tq.kv_batch_get(keys=found.keys, partition_id=partition, select_fields=fields)
        return found, data

    def close(self):
        tq.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save("llama", tmp_path_factory.mktemp("model"))


def advantages(data, keys, config):
    """By verl's own function, with the estimator that the config names."""
    padded = data.select("response_mask", "rm_scores").to_padded_tensor()
    proto = DataProto(batch=padded)
    proto.batch["token_level_rewards"] = proto.batch["rm_scores"]
    proto.non_tensor_batch["uid"] = np.array([key.split("_")[0] for key in keys], dtype=object)
    import trainers.verl.estimator  # noqa: F401 - where spy-env is installed, verl loads it as a plugin

    return compute_advantage_for_multi_trajectories(
        proto, keys, config.algorithm.adv_estimator, config=config.algorithm
    ).batch["advantages"]


def games(folder, step):
    return list(read_games(folder / "games" / f"step_{step:06d}.jsonl"))


def test_iterations_bring_our_advantages_and_one_that_is_short_of_a_row_ends_the_run_at_the_next(
    cluster, model, tmp_path
):
    trainer = Trainer(tmp_path, model, **{"algo.schedule": "cycle", "algo.cycle": (1, 1), "train.iterations": 4})
    try:
        curriculum = from_json(trainer.rows["train"][0]["prompt"][0]["content"]).run.start
        for number, stage in ((1, Stage.DETECTION), (2, Stage.PERFORMING)):
            found, data = trainer.step(number)
            assert sorted(found.keys) == sorted(f"uidtrain{number}x{i}_{s}_0" for i in range(2) for s in range(4))
            played = games(tmp_path, number)
            assert [game.trained for game in played] == [stage] * 2
            check_samples(data, advantages(data, found.keys, trainer.verl), played, curriculum, stage)
            curriculum = curriculum.after(played)
            if number == 1:
                found, data = trainer.step(1, "val")
                assert len(found.keys) == 8
                scores = data["rm_scores"].to_padded_tensor(0).sum(-1).tolist()
                assert all(round(3 * score, 5) in (0, 1, 2, 3) for score in scores)  # of three civilians
        lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
        assert [(line["step"], line["stage"]) for line in lines] == [(1, "detection"), (2, "performing")]
        state = json.loads((tmp_path / "coordinator/step_000002.json").read_text())
        assert Curriculum.from_json(json.dumps(state["curriculum"])) == curriculum
        assert len((tmp_path / "evaluations.jsonl").read_text().splitlines()) == 1
        found, _ = trainer.step(3, broken=True)
        assert len(found.keys) == 4  # verl goes on with what there is
        assert not (tmp_path / "coordinator/step_000003.json").exists()
        with pytest.raises(RuntimeError, match="no materializable trajectories"):
            trainer.step(4)
    finally:
        trainer.close()


def check_samples(data, found, played, curriculum, stage):
    """Every seat's advantage reached every trained token of a sample, and nothing else did."""
    advantages = sorted(curriculum.advantages(played, stage).values())
    advantages += [0.0] * (8 - len(advantages))  # the spies' votes
    masks = [mask.tolist() for mask in data["response_mask"]]
    for row, mask in zip(found, masks, strict=True):
        values = {round(value, 5) for value, trained in zip(row.tolist(), mask, strict=False) if trained}
        assert len(values) == 1
        assert not row[len(mask) :].any()
    whole = [row[len(mask) - 1].item() for row, mask in zip(found, masks, strict=True)]
    assert sorted(whole) == pytest.approx(sorted(advantages), abs=1e-6)
    assert any(whole)
    untrained = [mask for mask in masks if sum(mask) == 1 < len(mask)]
    assert len(untrained) == (2 if stage is Stage.DETECTION else 0)
    for ids, logprobs in zip(data["responses"], data["rollout_log_probs"], strict=True):
        assert torch.equal(logprobs, torch.full((len(ids),), -0.5))
