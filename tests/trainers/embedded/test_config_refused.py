"""Values that no run can be made with are refused before anything is loaded; a dry run shows what would be done."""

import json
from dataclasses import asdict

import pytest

from trainers.config import (
    Actor,
    Ckpt,
    Config,
    Data,
    Ds,
    Eval,
    GameConfig,
    Lora,
    Rollout,
    StageSampling,
    Train,
    Vllm,
)
from trainers.embedded.command import main, parse


def plain(text):
    """What the terminal shows, without its line breaks and boxes."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"rollout": Rollout(n_samples_per_prompt=8)},
            "--rollout.n_samples_per_prompt is 8, no multiple of --game.players 5: each sample is a seat, so give 5, 10, ...",
        ),
        ({"game": GameConfig(players=4)}, "n_samples_per_prompt is 5, no multiple of --game.players 4"),
        ({"rollout": Rollout(n_samples_per_prompt=0)}, "--rollout.n_samples_per_prompt is 0; it must be at least 1"),
        ({"rollout": Rollout(n_samples_per_prompt=-5)}, "--rollout.n_samples_per_prompt is -5"),
        ({"rollout": Rollout(batch_size=0)}, "--rollout.batch_size is 0"),
        ({"rollout": Rollout(micro_batch_size=0)}, "--rollout.micro_batch_size is 0"),
        ({"train": Train(iterations=0)}, "--train.iterations is 0"),
        ({"train": Train(batch_size=0)}, "--train.batch_size is 0"),
        ({"train": Train(micro_batch_size=-1)}, "--train.micro_batch_size is -1"),
        ({"train": Train(max_epochs=0)}, "--train.max_epochs is 0"),
        ({"ckpt": Ckpt(save_steps=0)}, "--ckpt.save_steps is 0"),
        ({"ckpt": Ckpt(max_num=0)}, "--ckpt.max_num is 0"),
        ({"ckpt": Ckpt(games_max_num=0)}, "--ckpt.games_max_num is 0"),
        ({"rollout": Rollout(performing=StageSampling(max_new_tokens=0))}, "--rollout.performing.max_new_tokens is 0"),
        ({"rollout": Rollout(max_tokens_per_gpu=0)}, "--rollout.max_tokens_per_gpu is 0"),
        ({"train": Train(max_tokens_per_gpu=0)}, "--train.max_tokens_per_gpu is 0"),
        ({"train": Train(max_minutes=-1)}, "--train.max_minutes is -1; it must be at least 0"),
        ({"data": Data(max_samples=-1)}, "--data.max_samples is -1"),
        (
            {"data": Data(max_len=512)},
            "--data.max_len is 512, and a ballot of 5 performances may take 2560 tokens and a vote 512, which leaves nothing",
        ),
        ({"eval": Eval(games=-1)}, "--eval.games is -1"),
        ({"eval": Eval(games=4, steps=-5)}, "--eval.steps is -5"),
        ({"eval": Eval(steps=5)}, "--eval.steps is 5, and no games are held out; give --eval.games"),
        ({"ds": Ds(lora=Lora(rank=-1))}, "--ds.lora.rank is -1"),
        ({"actor": Actor(shared_prompts="yes")}, "--actor.shared_prompts is 'yes'; choose one of .'auto', 'cascade'"),
        ({"ds": Ds(param_dtype="fp16")}, "--ds.param_dtype is 'fp16'; choose one of .'auto', 'bf16', 'fp32'"),
        ({"rollout": Rollout(engine="sglang")}, "--rollout.engine is 'sglang'; choose one of .'transformers', 'vllm'"),
        (
            {"rollout": Rollout(engine="vllm", temperature=0.009)},
            "--rollout.temperature is 0.009; vLLM samples at 0.01",
        ),
        ({"vllm": Vllm(gpu_memory_utilization=0.0)}, "--vllm.gpu_memory_utilization is 0.0; it is a share"),
        ({"vllm": Vllm(gpu_memory_utilization=1.1)}, "--vllm.gpu_memory_utilization is 1.1"),
        ({"game": GameConfig(players=0)}, "players is 0; a game needs at least 3"),
        ({"game": GameConfig(players=2)}, "players is 2; a game needs at least 3"),
        ({"game": GameConfig(voters="some")}, "voters is 'some'"),
        ({"game": GameConfig(operator="blur")}, "no masking operator named 'blur'"),
        ({"game": GameConfig(mask_fraction=2.0)}, "mask_fraction is 2.0"),
        ({"game": GameConfig(rewards="fair")}, r"--game.rewards is 'fair'; choose one of \['spyrl', 'vision_zero'\]"),
        ({"game": GameConfig(schedule="random")}, "schedule is 'random'"),
        ({"game": GameConfig(cycle=(0, 1))}, r"cycle is \(0, 1\)"),
        ({"game": GameConfig(k_min=9, patience=8)}, "k_min is 9 and patience 8"),
        ({"game": GameConfig(rho=1.0)}, "rho is 1.0"),
        ({"actor": Actor(loss_agg_mode="mean")}, "loss_agg_mode is 'mean'"),
        ({"actor": Actor(ratio="word")}, "ratio is 'word'"),
        ({"rollout": Rollout(temperature=0.0)}, "temperature is 0.0; give a positive one"),
        ({"rollout": Rollout(max_new_tokens=0)}, "max_new_tokens is 0"),
        (
            {"rollout": Rollout(chat_template_kwargs="thinking")},
            r"--rollout.chat_template_kwargs is 'thinking', not JSON \(Expecting",
        ),
        ({"rollout": Rollout(chat_template_kwargs="[1]")}, r"chat_template_kwargs is '\[1\]'; give a JSON object"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_the_way_out(wrong, message):
    with pytest.raises(ValueError, match=message):
        Config(**wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--game.players", "4"], "--rollout.n_samples_per_prompt is 5, no multiple of --game.players 4"),
        (["--train.iterations", "many"], "many"),
        (["--game.colour", "red"], "--game.colour"),
    ],
)
def test_a_wrong_command_line_ends_with_the_reason(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert message in plain(shown.out + shown.err)


def test_config_without_a_file_is_refused():
    with pytest.raises(ValueError, match="--config needs a file, or the shipped 'first_run'"):
        parse(["--train.seed", "1", "--config"])


def test_a_dry_run_prints_the_config_and_the_plan_and_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = ["--game.players", "4", "--rollout.n_samples_per_prompt", "8", "--rollout.batch_size", "6"]
    flags += ["--train.iterations", "3", "--game.voters", "civilians", "--ckpt.output_dir", "there"]
    assert main([*flags, "--dry-run"]) == 0
    config, _, plan = capsys.readouterr().out.rpartition("}\n")
    assert json.loads(config + "}") == json.loads(json.dumps(asdict(parse(flags))))
    assert plain(plan) == (
        "3 iterations of 12 games with 4 players (summarization, voters civilians, schedule hysteresis); results in there"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_refuses_what_a_run_would_refuse(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[train]\niterations = 0\n")
    with pytest.raises(ValueError, match=r"--train.iterations is 0"):
        main(["--dry-run", "--config", str(file)])
