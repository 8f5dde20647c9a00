"""What TRL's trainer is told: settings that break a step are refused, and the rows that TRL gets. Without TRL."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spy_env import Stage
from trainers.config import Algo, Data, GameConfig
from trainers.samples import Sample
from trainers.trl import config
from trainers.trl.config import Games, check_args, check_version
from trainers.trl.rows import Row, as_rollout, length_metrics, rows_of

PLAIN = {  # as GRPOConfig has them, for three games of four players
    "use_vllm": False,
    "use_transformers_continuous_batching": False,
    "generation_kwargs": None,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": None,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "max_completion_length": 16,
    "mask_truncated_completions": False,
    "reward_weights": None,
    "num_generations": 4,
    "num_iterations": 1,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 3,
    "steps_per_generation": 3,
    "generation_batch_size": 12,
    "auto_find_batch_size": False,
    "max_steps": 10,
    "eval_strategy": "no",
    "loss_type": "dapo",
    "deepspeed": None,
    "fsdp": [],
    "world_size": 1,
    "n_gpu": 0,
    "seed": 42,
    "chat_template_kwargs": None,
}
FOUR = Games(GameConfig(players=4), data=Data(max_len=1024))


def args(**changed):
    return SimpleNamespace(**{**PLAIN, **changed})


def test_plain_settings_are_taken():
    check_args(args(), FOUR)
    check_args(args(num_generations=8, generation_batch_size=24, per_device_train_batch_size=8), FOUR)
    check_args(args(world_size=3), FOUR)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"num_generations": 6}, r"num_generations is 6, no multiple of 4.*performing 4, detection 3.*give 4 .*8"),
        ({"world_size": 2}, r"generation_batch_size is 12, 6 rows a process, no multiple of 4"),
        ({"steps_per_generation": 6}, "steps_per_generation is 6 and gradient_accumulation_steps 3"),
        ({"num_iterations": 2}, "num_iterations is 2"),
        ({"auto_find_batch_size": True}, "auto_find_batch_size begins again"),
        ({"max_steps": -1}, "max_steps is -1"),
        ({"eval_strategy": "steps"}, "eval_strategy is steps"),
        ({"eval_strategy": SimpleNamespace(value="epoch")}, "eval_strategy"),
        ({"top_p": 0.9}, r"top_p is 0\.9.*leave it 1\.0"),
        ({"top_k": 50}, "top_k is 50"),
        ({"min_p": 0.1}, r"min_p is 0\.1"),
        ({"repetition_penalty": 1.1}, r"repetition_penalty is 1\.1"),
        ({"generation_kwargs": {"top_a": 1}}, "generation_kwargs is"),
        ({"mask_truncated_completions": True}, "mask_truncated_completions"),
        ({"use_vllm": True}, "use_vllm"),
        ({"use_transformers_continuous_batching": True}, "use_transformers_continuous_batching"),
        ({"reward_weights": [1.0]}, "reward_weights"),
        ({"deepspeed": "zero3.json"}, "deepspeed and fsdp"),
        ({"fsdp": ["full_shard"]}, "deepspeed and fsdp"),
        ({"n_gpu": 2}, "2 GPUs in one process.*torchrun"),
        ({"max_completion_length": 300}, "leaves nothing for the document"),
        ({"temperature": 0.0}, r"temperature is 0\.0"),
        (
            {"loss_type": "grpo", "gradient_accumulation_steps": 6, "steps_per_generation": 6},
            "9 trained replies of stage",
        ),
    ],
)
def test_what_breaks_a_step_is_refused_with_the_reason(changed, said):
    with pytest.raises(ValueError, match=said):
        check_args(args(**changed), FOUR)


def test_a_loss_that_weighs_rows_is_taken_where_they_can_be_cut_evenly():
    check_args(args(loss_type="grpo"), FOUR)


@pytest.mark.parametrize(
    ("game", "schedule", "rows"),
    [
        ({}, "hysteresis", 5),
        ({}, "detection", 4),
        ({}, "performing", 5),
        ({}, "joint", 9),
        ({"voters": "referees", "referees": 8}, "cycle", 8),
        ({"voters": "referees", "referees": 3}, "cycle", 5),
        ({"voters": "referees"}, "joint", 13),
    ],
)
def test_a_game_has_as_many_rows_as_its_fullest_stage(game, schedule, rows):
    assert Games(GameConfig(**game), Algo(schedule=schedule)).rows_a_game == rows


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Games(GameConfig(players=2)), "players"),
        (lambda: Games(algo=Algo(schedule="often")), "schedule is 'often'"),
        (lambda: Games(micro_batch_size=0), "micro_batch_size is 0"),
        (lambda: Games(data=Data(max_len=0)), r"data\.max_len is 0"),
    ],
)
def test_games_that_cannot_be_played_are_refused_at_once(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize(("found", "fits"), [("1.16.2", True), ("1.17.0", False), ("1.1.6", False)])
def test_only_the_tested_trl_is_taken(monkeypatch, found, fits):
    monkeypatch.setattr(config, "version", lambda _: found)
    if fits:
        check_version()
    else:
        with pytest.raises(ValueError, match=rf"trl is {found}, and only 1\.16 was tested"):
            check_version()


def sample(game, seat, prompt, ids):
    return Sample(
        game, Stage.DETECTION, seat, "civilian", prompt, ids, tuple(-0.5 for _ in ids), len(ids) > 2, reward=len(ids)
    )


SAMPLES = [
    sample("a", "player_1", (1, 2, 3), (4,)),
    sample("a", "player_2", (1, 2), (4, 5)),
    sample("b", "player_3", (1,), (4, 5, 6)),
]
WORTH = {Stage.DETECTION: {("a", "player_1"): 1.0, ("a", "player_2"): -1.0, ("b", "player_3"): 0.5}}


def test_each_game_is_filled_up_with_blank_rows_of_its_shortest_prompt():
    rows = rows_of(SAMPLES, WORTH, rows_a_game=3, pad=9)
    blank = [Row((1, 2), (9,), (0.0,), 0.0, 0.0, True), *2 * [Row((1,), (9,), (0.0,), 0.0, 0.0, True)]]
    assert [row for row in rows if row.blank] == blank
    assert [row.blank for row in rows] == [False, False, True, False, True, True]
    assert [(row.ids, row.advantage) for row in rows if not row.blank] == [
        ((4,), 1.0),
        ((4, 5), -1.0),
        ((4, 5, 6), 0.5),
    ]
    rollout = as_rollout(rows)
    assert rollout["env_mask"] == [[1], [1, 1], [0], [1, 1, 1], [0], [0]]
    assert rollout["earned"] == [1, 2, 0.0, 3, 0.0, 0.0]
    assert rollout["completion_ids"][1] == [4, 5]


@pytest.mark.parametrize(
    ("parts", "kept"), [(1, [0, 1, 3]), (2, [0, 1, 3, 2]), (3, [0, 1, 3]), (6, [0, 1, 3, 2, 4, 5])]
)
def test_as_few_blank_rows_stay_as_equal_micro_batches_need(parts, kept):
    torch = pytest.importorskip("torch", reason="rows become tensors")
    from trainers.trl.rows import trained_rows

    rows = rows_of(SAMPLES, WORTH, rows_a_game=3, pad=9)
    scored = {"completion_ids": torch.arange(6), "advantages": torch.zeros(6), "num_items_in_batch": torch.tensor(6)}
    batch = trained_rows({**scored, "sampling_per_token_logps": -torch.arange(6)}, rows, parts)
    assert batch["completion_ids"].tolist() == kept
    assert batch["old_per_token_logps"].tolist() == [-i for i in kept]
    assert batch["advantages"].tolist() == [rows[i].advantage for i in kept]
    assert batch["num_items_in_batch"] == 6
    assert "sampling_per_token_logps" not in batch


def test_lengths_are_of_trained_replies_alone():
    assert length_metrics(SAMPLES) == {
        "completions/min_length": 1,
        "completions/max_length": 3,
        "completions/mean_terminated_length": 1.5,
        "completions/min_terminated_length": 1,
        "completions/max_terminated_length": 2,
    }
