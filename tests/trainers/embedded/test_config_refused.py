"""Values that no run can be made with are refused before anything is loaded; a dry run shows what would be done."""

import json
from dataclasses import asdict

import pytest

from trainers.config import Config
from trainers.embedded.command import main, parse
from trainers.embedded.lineup import check
from trainers.settings import from_dict


def plain(text):
    """What the terminal shows, without its line breaks and boxes."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"rollout": {"n_samples_per_prompt": 8}},
            "--rollout.n_samples_per_prompt is 8, no multiple of --game.players 5: each sample is a seat, so give 5, 10, ...",
        ),
        ({"game": {"players": 4}}, "n_samples_per_prompt is 5, no multiple of --game.players 4"),
        ({"rollout": {"n_samples_per_prompt": 0}}, "--rollout.n_samples_per_prompt is 0; it must be at least 1"),
        ({"rollout": {"n_samples_per_prompt": -5}}, "--rollout.n_samples_per_prompt is -5"),
        ({"rollout": {"batch_size": 0}}, "--rollout.batch_size is 0"),
        ({"rollout": {"micro_batch_size": 0}}, "--rollout.micro_batch_size is 0"),
        ({"train": {"iterations": 0}}, "--train.iterations is 0"),
        ({"train": {"batch_size": 0}}, "--train.batch_size is 0"),
        ({"train": {"micro_batch_size": -1}}, "--train.micro_batch_size is -1"),
        ({"train": {"max_epochs": 0}}, "--train.max_epochs is 0"),
        ({"ckpt": {"save_steps": 0}}, "--ckpt.save_steps is 0"),
        ({"ckpt": {"max_num": 0}}, "--ckpt.max_num is 0"),
        ({"ckpt": {"games_max_num": 0}}, "--ckpt.games_max_num is 0"),
        ({"rollout": {"performing": {"max_new_tokens": 0}}}, "--rollout.performing.max_new_tokens is 0"),
        ({"rollout": {"max_tokens_per_gpu": 0}}, "--rollout.max_tokens_per_gpu is 0"),
        ({"train": {"max_tokens_per_gpu": 0}}, "--train.max_tokens_per_gpu is 0"),
        ({"train": {"max_minutes": -1}}, "--train.max_minutes is -1; it must be at least 0"),
        ({"data": {"max_samples": -1}}, "--data.max_samples is -1"),
        (
            {"data": {"max_len": 512}},
            "--data.max_len is 512, and a ballot of 5 performances may take 2560 tokens and a vote 512, which leaves nothing",
        ),
        ({"eval": {"games": -1}}, "--eval.games is -1"),
        ({"eval": {"games": 4, "steps": -5}}, "--eval.steps is -5"),
        ({"eval": {"steps": 5}}, "--eval.steps is 5, and no games are held out; give --eval.games"),
        ({"ds": {"lora": {"rank": -1}}}, "--ds.lora.rank is -1"),
        ({"actor": {"shared_prompts": "yes"}}, "--actor.shared_prompts is 'yes'; choose one of .'auto', 'cascade'"),
        ({"ds": {"param_dtype": "fp16"}}, "--ds.param_dtype is 'fp16', in which small gradients vanish"),
        ({"rollout": {"engine": "sglang"}}, "--rollout.engine is 'sglang'; choose one of .'transformers', 'vllm'"),
        (
            {"rollout": {"engine": "vllm", "temperature": 0.009}},
            "--rollout.temperature is 0.009; vLLM samples at 0.01",
        ),
        (
            {"vllm": {"gpu_memory_utilization": 0.0}},
            "--vllm.gpu_memory_utilization is 0.0; it must be above 0 and at most 1",
        ),
        ({"vllm": {"gpu_memory_utilization": 1.1}}, "--vllm.gpu_memory_utilization is 1.1"),
        ({"game": {"players": 0}}, "players is 0; it must be at least 3 .with fewer every vote"),
        ({"game": {"players": 2}}, "players is 2; it must be at least 3"),
        ({"game": {"voters": "some"}}, "voters is 'some'"),
        ({"game": {"operator": "blur"}}, "no masking operator named 'blur'"),
        ({"game": {"mask_fraction": 2.0}}, "mask_fraction is 2.0"),
        ({"game": {"rewards": "fair"}}, r"--game.rewards is 'fair'; choose one of \['spyrl', 'vision_zero'\]"),
        ({"algo": {"schedule": "random"}}, "schedule is 'random'"),
        ({"algo": {"cycle": (0, 1)}}, r"cycle is \(0, 1\)"),
        ({"algo": {"k_min": 9, "patience": 8}}, "k_min is 9 and patience 8"),
        ({"algo": {"rho": 1.0}}, "rho is 1.0"),
        ({"actor": {"loss_agg_mode": "mean"}}, "loss_agg_mode is 'mean'"),
        ({"actor": {"ratio": "word"}}, "ratio is 'word'"),
        ({"rollout": {"temperature": 0.0}}, "--rollout.temperature is 0.0; it must be above 0"),
        ({"rollout": {"max_new_tokens": 0}}, "max_new_tokens is 0"),
        (
            {"rollout": {"chat_template_kwargs": "thinking"}},
            r"--rollout.chat_template_kwargs is 'thinking', not JSON \(Expecting",
        ),
        ({"rollout": {"chat_template_kwargs": "[1]"}}, r"chat_template_kwargs is '\[1\]'; give a JSON object"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_the_way_out(wrong, message):
    with pytest.raises(ValueError, match=message):
        check(from_dict(Config, wrong, "test"))


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
    with pytest.raises(ValueError, match="--config needs a TOML or JSON file, or the shipped 'first_run'"):
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
