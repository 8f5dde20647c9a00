"""The settings that ``spyrl openrlhf`` follows: configs that move here, defaults that follow from others, refusals."""

import json
import re
from dataclasses import asdict

import pytest

pytest.importorskip("tyro", reason="the command line needs the train extra")

from trainers.config import Actor, Config, GameConfig, Rollout
from trainers.openrlhf.checks import check_config
from trainers.openrlhf.command import parsed
from trainers.openrlhf.launch import HANDED_ON, REFUSED_SETTINGS, handed_on
from trainers.settings import settings_of

ONE_GPU = ["--actor.num_gpus_per_node", "1"]


def read(*arguments):
    return parsed([*ONE_GPU, *arguments])[0]


def written(folder, row, name="run.json"):
    file = folder / name
    file.write_text(json.dumps(row))
    return str(file)


def test_every_row_of_the_tables_names_settings():
    names = [name for name, _ in settings_of(Config())]
    for group in (*HANDED_ON, *REFUSED_SETTINGS):
        assert any(f"{name}.".startswith(f"{group}.") for name in names), group


def test_a_config_of_spyrl_train_moves_here_unchanged(tmp_path):
    embedded = Config(actor=Actor(shared_prompts="mask", num_gpus_per_node=1), rollout=Rollout(16, engine="vllm"))
    assert read("--config", written(tmp_path, {"config": asdict(embedded), "versions": {}})) == embedded


def test_a_run_of_ours_is_read_back_as_it_was(tmp_path):
    config = read("--rollout.micro_batch_size", "2", "--rollout.batch_size", "16", "--algo.cycle", "2", "1")
    row = {"trainer": "openrlhf", "config": config.without_secrets()}
    assert parsed(["--config", written(tmp_path, row)])[0] == config


def test_flags_go_before_the_file(tmp_path):
    file = written(tmp_path, {"rollout": {"batch_size": 16, "temperature": 0.5}})
    config = read("--config", file, "--rollout.batch_size", "8")
    assert (config.rollout.batch_size, config.rollout.temperature) == (8, 0.5)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"actor": {"ratio": "sequence"}}, "--actor.ratio is 'sequence': for a ratio of whole replies give"),
        ({"opponents": {"spy": "scripted"}}, "--opponents.spy is 'scripted': one model plays all seats"),
        ({"opponents": {"pool": 6}}, "--opponents.pool is 6: one model plays all seats"),
        ({"eval": {"opponent": "random", "games": 1}}, "--eval.opponent is 'random': one model plays all seats"),
        ({"train": {"max_minutes": 5}}, "--train.max_minutes is 5: end the job when you like"),
        ({"ds": {"lora": {"rank": 8}}}, "--ds.lora.rank is 8: .*under the names that peft gives them"),
        ({"ds": {"param_dtype": "fp32"}}, "--ds.param_dtype is 'fp32'; OpenRLHF trains in bf16 or fp16"),
        (
            {"vllm": {"enable_prefix_caching": False}},
            "--vllm.enable_prefix_caching is False: the seats of a game share",
        ),
        ({"ckpt": {"games_max_num": 3}}, "--ckpt.games_max_num is 3"),
        ({"algo": {"warm_start": 8}}, "fits nothing before it trains; warm up with spyrl train"),
        ({"algo": {"shuffle_advantages": True}}, "which is then no longer 0; run this control with spyrl train"),
        ({"algo": {"schedule": "joint"}}, "--algo.schedule is 'joint', .* this trainer takes one sample per call"),
        ({"actor": {"colour": "red"}}, "unknown actor.colour"),
        ({"game": {"schedule": "cycle"}}, "unknown game.schedule; it is algo.schedule now"),
        ({"actor": 3}, "actor is 3; give a group of settings"),
        ([1], r"is \[1\]; give a group of settings"),
    ],
)
def test_a_file_that_asks_for_what_cannot_be_done_here_is_refused(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        read("--config", written(tmp_path, row))


def test_a_run_that_trains_adapters_cannot_move_here():
    with pytest.raises(ValueError, match=r"ds\.lora\.rank is 16"):
        read("--config", "first_run", "--train.max_minutes", "None")


def test_a_setting_that_nobody_has_thought_of_here_stays_at_its_default(monkeypatch):
    monkeypatch.setattr("trainers.openrlhf.checks.HANDED_ON", tuple(set(HANDED_ON) - {"actor.max_norm"}))
    check_config(read())
    with pytest.raises(ValueError, match=r"--actor\.max_norm is 2\.0: this trainer has nothing like it"):
        read("--actor.max_norm", "2")


def test_a_config_file_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"no config at 'nowhere\.toml'"):
        read("--config", "nowhere.toml")


def test_what_follows_from_other_settings_is_filled_in():
    values = handed_on(parsed(["--actor.num_nodes", "2", "--rollout.batch_size", "16", "--eval.games", "2"])[0])
    assert {name: values[name] for name in ("train.batch_size", "train.micro_batch_size", "vllm.num_engines")} == {
        "train.batch_size": 80,
        "train.micro_batch_size": 1,
        "vllm.num_engines": 1,
    }
    assert (values["rollout.micro_batch_size"], values["ds.param_dtype"]) == (1, "bf16")
    assert [values[f"eval.{name}"] for name in ("steps", "n_samples_per_prompt", "temperature")] == [100, 5, 1.0]
    hybrid = ["--train.colocate_all", "--vllm.tensor_parallel_size", "2"]
    assert handed_on(parsed(hybrid)[0])["vllm.num_engines"] == 4
    assert handed_on(parsed([*hybrid, "--train.async_enable"])[0])["vllm.num_engines"] == 1
    four = read("--rollout.batch_size", "16", "--train.micro_batch_size", "4")
    assert handed_on(four)["rollout.micro_batch_size"] == 4  # train's


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--rollout.n_samples_per_prompt 8", "is 8, no multiple of --game.players 5"),
        ("--rollout.temperature 0.005", "--rollout.temperature is 0.005, and vLLM samples at 0.01 or higher"),
        ("--eval.games 1 --eval.temperature 0.005", "--eval.temperature is 0.005, and vLLM samples at 0.01 or higher"),
        (
            "--data.max_len 3072",
            "--data.max_len is 3072, and a ballot of 5 performances may take 2560 tokens and a vote 512",
        ),
        ("--train.iterations 10 --train.num_episodes 3", "10, no multiple of --train.num_episodes 3"),
        ("--actor.num_gpus_per_node 3", "= 40 samples per iteration, no multiple of the 3 processes"),
        ("--actor.num_gpus_per_node 4 --ds.ring_attn_size 3", "is 4, no multiple of --ds.ring_attn_size"),
        ("--train.batch_size 16", "--train.batch_size is 16 samples per update, and .* = 40 is no multiple"),
        (
            "--actor.num_gpus_per_node 8 --train.micro_batch_size 2",
            "--train.micro_batch_size is 2, and each of 8 processes gets 5 of the 40 samples of an update",
        ),
        (
            "--actor.num_gpus_per_node 4 --train.batch_size 10 --train.micro_batch_size 1",
            "each of 4 processes gets 2.5 of the 10 samples of an update",
        ),
        (
            "--actor.num_gpus_per_node 4 --rollout.micro_batch_size 4",
            "--rollout.micro_batch_size is 4, and each of 4 processes gets 10 of the 40 samples of an iteration",
        ),
        ("--eval.steps 5", "--eval.steps is 5, and no games are held out"),
        ("--eval.games 2 --eval.steps 101", "--eval.steps is 101, more than --train.iterations 100"),
        ("--ckpt.max_num 1", "--ckpt.max_num is 1; it must be at least 2"),
        ("--train.async_enable --eval.games 2", "never the last weights; give --eval.steps of at most 98"),
        ("--train.async_enable --eval.games 2 --eval.steps 99", "give --eval.steps of at most 98"),
        ("--train.colocate_all --vllm.num_engines 2", "all 1 GPUs of the actor, and 2 engines"),
        ("--train.colocate_all --vllm.tensor_parallel_size 2", "0 engines x --vllm.tensor_parallel_size 2 don't fill"),
        ("--train.colocate_all --ref.num_gpus_per_node 2", "--ref.num_gpus_per_node 2 out"),
        ("--vllm.gpu_memory_utilization 1.5", "is 1.5; it must be above 0 and at most 1"),
        ("--ray.address 10.0.0.1:6379", "give the address of the dashboard, such as http://HEAD:8265"),
        ("--rollout.deadline_s 0", "--rollout.deadline_s is 0.0; it must be at least 1"),
        ("--game.players 2", "players is 2"),
        ("--game.rewards fair", "rewards is 'fair'; choose one of"),
        ("--rollout.chat_template_kwargs [1]", "give a JSON object"),
    ],
)
def test_settings_under_which_the_count_would_not_close_are_refused(arguments, message, capsys):
    with pytest.raises((SystemExit, ValueError)) as refused:
        read(*arguments.split())
    shown = capsys.readouterr()  # a single value is refused by tyro, in a box
    text = f"{refused.value} {shown.out} {shown.err}"
    assert re.search(message, " ".join(text.replace("│", " ").split()))


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(("players", "documents", "samples"), [(5, 104, 10), (4, 128, 8)])
def test_the_published_batches_fit_eight_and_sixteen_gpus(nodes, players, documents, samples):
    check_config(Config(GameConfig(players=players), Actor(num_nodes=nodes), rollout=Rollout(documents, samples)))
