"""Flags of OpenRLHF's: those that break a run are refused however they are written; all others pass as they are."""

import pytest

pytest.importorskip("tyro", reason="the command line needs the train extra")

from trainers.config import Actor, Config
from trainers.openrlhf.checks import check_passed
from trainers.openrlhf.command import parsed
from trainers.openrlhf.launch import (
    EXACTLY,
    HANDED_ON,
    REFUSED,
    TOLD,
    UNLESS_SAID,
    Passed,
    Paths,
    openrlhf_arguments,
    passed_flags,
    shown,
)

PATHS = Paths("model", "train.jsonl", None, "agent.py", "checkpoints", "final")
ONE_GPU = ["--actor.num_gpus_per_node", "1"]


def arguments_of(*said):
    config, passed, _ = parsed([*ONE_GPU, *said])
    return openrlhf_arguments(config, PATHS, passed, wandb_key=None)


def check(*said):
    check_passed(passed_flags(said))


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        (["--ds.zero_stage", "3"], [Passed("ds.zero_stage", ("3",))]),
        (["--ds.zero_stage=3"], [Passed("ds.zero_stage", ("3",))]),
        (["--vllm.enable_sleep"], [Passed("vllm.enable_sleep", ())]),
        (
            ["--algo.advantage.is_correction_threshold", "0.5", "2", "--train.seed", "3", "--ref.offload"],
            [Passed("algo.advantage.is_correction_threshold", ("0.5", "2")), Passed("ref.offload", ())],
        ),
        (["--actor.aux_loss_coef", "-0.5"], [Passed("actor.aux_loss_coef", ("-0.5",))]),
        (["--new.flag", "-1", "-2.5", "x"], [Passed("new.flag", ("-1", "-2.5", "x"))]),
    ],
)
def test_a_flag_that_is_not_ours_passes_with_its_values(said, passed):
    assert parsed([*ONE_GPU, *said])[1] == passed
    told, words = arguments_of(*said), [word for flag in passed for word in (f"--{flag.flag}", *flag.values)]
    assert told[-len(words) :] == words


@pytest.mark.parametrize("flag", sorted(REFUSED))
def test_what_breaks_a_run_is_refused_with_the_reason(flag):
    for said in ([f"--{flag}", "3"], [f"--{flag}=3"], [f"--{flag}"]):
        with pytest.raises(ValueError, match=rf"^--{flag}.* can't be used: .*; leave it out$"):
            check(*said)


def test_the_whole_command_line_is_checked():
    with pytest.raises(ValueError, match=r"^--algo\.kl\.target 6 can't be used"):
        arguments_of("--ds.zero_stage", "3", "--algo.kl.target", "6", "--train.seed", "1")


@pytest.mark.parametrize("flag", sorted(TOLD.keys() - {"data.input_key"}))  # of the corpus, where a user gives it
def test_what_openrlhf_is_told_may_be_said_again_but_not_otherwise(flag):
    wanted, why = TOLD[flag]
    said = passed_flags([f"--{flag}", *wanted])
    check_passed(said)
    config = Config(actor=Actor(num_gpus_per_node=1))
    assert openrlhf_arguments(config, PATHS, said, None) == openrlhf_arguments(config, PATHS, [], None)
    with pytest.raises(ValueError, match=rf"^--{flag} 0.25.*: OpenRLHF always gets --{flag}") as refused:
        check(f"--{flag}", "0.25")
    assert why in str(refused.value)


@pytest.mark.parametrize("flag", sorted(EXACTLY))
def test_numbers_that_would_bend_the_pass_through_are_refused_and_harmless_ones_pass(flag):
    check(f"--{flag}", "1.0")
    for said in ([f"--{flag}", "0.9"], [f"--{flag}=0.9"], [f"--{flag}"], [f"--{flag}", "many"]):
        with pytest.raises(ValueError, match=rf"--{flag}.*: it must be 1, since"):
            check(*said)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("--algo.dynamic_filtering_en", "--algo.dynamic_filtering_enable"),
        ("--algo.dynamic_f=1", "--algo.dynamic_filtering_enable or --algo.dynamic_filtering_range"),
        ("--rollout.batch_s", "--rollout.batch_size"),
        ("--reward.cl", "--reward.clip_range"),
        ("--algo.advantage.est", "--algo.advantage.estimator"),
        ("--rollout.top", "--rollout.top_p"),
        ("--actor.lr_s", "--actor.lr_scheduler"),
        ("--ds.lora.r", "--ds.lora.rank"),
        ("--game.play", "--game.players"),
    ],
)
def test_an_abbreviation_that_openrlhf_would_take_does_not_slip_past(said, meant):
    with pytest.raises(ValueError, match=f"could be short for {meant}; write flags out"):
        check(said, "4")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (["--ds.lora.dropout", "0.1"], "OpenRLHF 0.11.2 hands weights .* spyrl train --ds.lora.rank"),
        (["--game.colour", "red"], "no flag --game.colour; spyrl openrlhf --help names them"),
        (["--rollout.detection.top_k", "3"], "no flag --rollout.detection.top_k"),
        (["red"], "'red' belongs to no flag"),
    ],
)
def test_a_flag_that_means_nothing_here_is_refused_with_the_way_out(said, message):
    with pytest.raises(ValueError, match=message):
        check(*said)


def test_our_defaults_hold_until_the_user_says_otherwise():
    for flag, values in UNLESS_SAID.items():
        told = arguments_of()
        assert told[told.index(f"--{flag}") + 1 :][: len(values)] == list(values)
        other = arguments_of(f"--{flag}", "other")
        assert other.count(f"--{flag}") == 1
        assert other[other.index(f"--{flag}") + 1] == "other"


def test_openrlhf_is_told_every_setting_that_it_shares_and_none_of_ours():
    told = arguments_of("--rollout.deadline_s", "60", "--game.players", "4", "--rollout.n_samples_per_prompt", "8")
    flags = {word for word in told if word.startswith("--")}
    assert len(flags) == sum(word.startswith("--") for word in told)  # each once
    unset = {"eval.steps", "eval.n_samples_per_prompt", "eval.temperature", "vllm.gpu_memory_utilization"}
    unset |= {name for name in HANDED_ON if name.endswith(("_enable", "_eager", "_all", "max_tokens_per_gpu"))}
    assert {f"--{name}" for name in {*HANDED_ON} - unset} <= flags
    ours = (
        "--game.",
        "--ray.",
        "--rollout.detection",
        "--rollout.deadline_s",
        "--data.documents",
        "--data.max_samples",
    )
    assert not [flag for flag in flags if flag.startswith((*ours, "--train.iterations", "--eval.", "--logger."))]
    assert told[told.index("--data.input_key") + 1] == "prompt"
    assert told[told.index("--ckpt.output_dir") + 1] == "final"
    assert told[told.index("--actor.adam.betas") + 1 :][:2] == ["0.9", "0.95"]


def test_evaluation_is_told_where_games_are_held_out():
    config, _, _ = parsed([*ONE_GPU, "--eval.games", "3", "--train.iterations", "6"])
    told = openrlhf_arguments(config, PATHS._replace(evaluation="eval.jsonl"), [], None)
    assert told[told.index("--eval.dataset") + 1] == "eval.jsonl"
    assert told[told.index("--eval.steps") + 1] == "6"
    assert told[told.index("--eval.n_samples_per_prompt") + 1] == "5"


def test_a_secret_is_told_and_not_shown():
    config, _, _ = parsed([*ONE_GPU, "--logger.wandb.project", "spies", "--logger.wandb.key", "s3cret"])
    told = openrlhf_arguments(config, PATHS, [], config.logger.wandb.key)
    assert told[told.index("--logger.wandb.key") + 1] == "s3cret"
    assert '--logger.wandb.key "$WANDB_API_KEY"' in shown(told)
    assert "s3cret" not in shown(told) + str(config.without_secrets())


def test_engines_that_generate_all_the_time_never_sleep():
    asleep = ["--train.colocate_all", "--vllm.enable_sleep"]
    with pytest.raises(ValueError, match=r"--train\.async_enable can't be used with --vllm\.enable_sleep"):
        arguments_of("--train.async_enable", *asleep)
    assert "--vllm.enable_sleep" in arguments_of(*asleep)
    assert "--train.async_enable" in arguments_of("--train.async_enable", "--train.colocate_all")
