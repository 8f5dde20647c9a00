"""What ``spyrl openrlhf`` takes for its own: defaults as in spyrl train, files that move here, and what is refused."""

import dataclasses
import json
import re
from dataclasses import asdict

import pytest

pytest.importorskip("tyro", reason="the command line needs the train extra")

from trainers.config import Config as Embedded
from trainers.config import GameConfig
from trainers.openrlhf.command import parse, read_config
from trainers.openrlhf.config import Actor, Config, Rollout, filled_in
from trainers.openrlhf.flags import DEFAULTS_OF_SPYRL_TRAIN, OF_SPYRL_TRAIN
from trainers.openrlhf.launch import flags_of
from trainers.settings import read_config as read_embedded
from trainers.settings import value_at

ONE_GPU = ["--actor.num_gpus_per_node", "1"]


def parsed(*arguments):
    return parse([*ONE_GPU, *arguments])[0]


def written(folder, row, name="run.json"):
    file = folder / name
    file.write_text(json.dumps(row))
    return str(file)


def test_names_and_defaults_are_those_of_spyrl_train():
    here, there = dict(flags_of(Config())), dict(flags_of(Embedded()))
    assert {flag: there[flag] for flag in DEFAULTS_OF_SPYRL_TRAIN} == DEFAULTS_OF_SPYRL_TRAIN
    both = here.keys() & there.keys() - DEFAULTS_OF_SPYRL_TRAIN.keys()
    assert len(both) > 60
    assert {flag: here[flag] for flag in both} == {flag: there[flag] for flag in both}


def test_every_other_setting_of_spyrl_train_is_named_with_the_way_out():
    missing = dict(flags_of(Embedded())).keys() - dict(flags_of(Config())).keys()
    assert missing == OF_SPYRL_TRAIN.keys() - {"ds.lora.dropout"}  # OpenRLHF's own
    assert all(value_at(Embedded(), flag) in OF_SPYRL_TRAIN[flag][0] for flag in missing)


def test_a_config_of_spyrl_train_moves_here_unchanged(tmp_path):
    embedded = Embedded(rollout=dataclasses.replace(Embedded().rollout, batch_size=16, engine="vllm"))
    moved = read_config(written(tmp_path, {"config": asdict(embedded), "versions": {}}))
    assert moved.rollout.batch_size == 16
    assert moved == dataclasses.replace(Config(), rollout=moved.rollout)
    assert moved.rollout.micro_batch_size is None  # spyrl train's default says nothing here


def test_a_run_of_ours_is_read_back_as_it_was(tmp_path):
    micro = DEFAULTS_OF_SPYRL_TRAIN["rollout.micro_batch_size"]  # here it was meant
    config = parsed(
        *("--rollout.micro_batch_size", str(micro), "--rollout.batch_size", str(micro), "--game.cycle", "2", "1")
    )
    row = {"trainer": "openrlhf", "config": config.without_secrets()}
    assert read_config(written(tmp_path, row)) == config


def test_flags_go_before_the_file(tmp_path):
    file = written(tmp_path, {"rollout": {"batch_size": 16, "temperature": 0.5}})
    config = parsed("--config", file, "--rollout.batch_size", "8")
    assert (config.rollout.batch_size, config.rollout.temperature) == (8, 0.5)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"actor": {"ratio": "sequence"}}, "actor.ratio is 'sequence', a setting of spyrl train: for a ratio of whole"),
        ({"opponents": {"spy": "scripted"}}, "opponents.spy is 'scripted'.*one model plays all seats"),
        ({"train": {"max_minutes": 5}}, "train.max_minutes is 5.*end the job when you like"),
        ({"ds": {"lora": {"rank": 8}}}, "ds.lora.rank is 8.*under the names that peft gives them"),
        ({"ckpt": {"games_max_num": 3}}, "ckpt.games_max_num is 3"),
        ({"actor": {"colour": "red"}}, r"unknown \['colour'\]"),
        ({"actor": 3}, "actor is 3; give a group of settings"),
        ([1], r"is \[1\]; give a group of settings"),
    ],
)
def test_a_file_that_asks_for_what_cannot_be_done_here_is_refused(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        read_config(written(tmp_path, row))


def test_a_run_that_trains_adapters_cannot_move_here(tmp_path):
    first = asdict(read_embedded("first_run"))
    first["train"]["max_minutes"] = None
    with pytest.raises(ValueError, match=r"ds\.lora\.rank is 16"):
        read_config(written(tmp_path, first))


def test_no_file_is_said_so():
    with pytest.raises(ValueError, match=r"no config at 'nowhere\.toml'"):
        read_config("nowhere.toml")


def test_what_follows_from_other_settings_is_filled_in():
    config = filled_in(parse(["--actor.num_nodes", "2", "--rollout.batch_size", "16", "--eval.games", "2"])[0])
    assert (config.ref.num_nodes, config.ref.num_gpus_per_node) == (2, 8)
    assert (config.train.batch_size, config.train.micro_batch_size, config.rollout.micro_batch_size) == (80, 1, 1)
    assert (config.vllm.num_engines, config.ds.param_dtype) == (1, "bf16")
    assert (config.eval.steps, config.eval.n_samples_per_prompt, config.eval.temperature) == (100, 5, 1.0)
    hybrid = ["--train.colocate_all", "--vllm.tensor_parallel_size", "2"]
    assert filled_in(parse(hybrid)[0]).vllm.num_engines == 4
    assert filled_in(parse([*hybrid, "--train.async_enable"])[0]).vllm.num_engines == 1
    assert filled_in(config) == config


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--rollout.n_samples_per_prompt 8", "is 8, no multiple of --game.players 5"),
        ("--game.schedule joint", "--game.schedule is 'joint', and OpenRLHF takes one sample a call"),
        ("--game.shuffle_advantages", "which is then no longer 0; run this control with spyrl train"),
        ("--rollout.temperature 0.005", "--rollout.temperature is 0.005; give a positive one"),
        ("--eval.games 1 --eval.temperature 0", "--eval.temperature is 0.0; give a positive one"),
        (
            "--data.max_len 3072",
            "--data.max_len is 3072, and a ballot of 5 performances may take 2560 tokens and a vote 512",
        ),
        ("--train.iterations 10 --train.num_episodes 3", "10, no multiple of --train.num_episodes 3"),
        ("--actor.num_gpus_per_node 3", "= 40 samples an iteration, no multiple of the 3 processes"),
        ("--actor.num_gpus_per_node 4 --ds.ring_attn_size 3", "is 4, no multiple of --ds.ring_attn_size"),
        ("--train.batch_size 16", "--train.batch_size is 16 samples an update, and .* = 40 is no multiple"),
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
        ("--vllm.gpu_memory_utilization 1.5", "is 1.5; it is a share"),
        ("--ray.address 10.0.0.1:6379", "give the address of the dashboard, such as http://HEAD:8265"),
        ("--rollout.deadline_s 0", "--rollout.deadline_s is 0.0; it must be at least 1"),
        ("--game.players 2", "players is 2"),
        ("--game.rewards fair", "--game.rewards is 'fair'"),
        ("--rollout.chat_template_kwargs [1]", "give a JSON object"),
    ],
)
def test_settings_under_which_the_count_would_not_close_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(*arguments.split())
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert re.search(message, " ".join((shown.out + shown.err).replace("│", " ").split()))


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(("players", "documents", "samples"), [(5, 104, 10), (4, 128, 8)])
def test_the_published_batches_fit_eight_and_sixteen_gpus(nodes, players, documents, samples):
    config = Config(GameConfig(players=players), Actor(num_nodes=nodes), rollout=Rollout(documents, samples))
    assert config.samples_per_iteration // config.ranks in (128, 130, 64, 65)
