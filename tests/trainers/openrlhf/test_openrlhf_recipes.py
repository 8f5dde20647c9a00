"""The recipes say what was published, and OpenRLHF's own parser takes every command that they print."""

import json

import pytest

pytest.importorskip("tyro", reason="the command line needs the train extra")

from tests.trainers.openrlhf.recipe_runs import RECIPES, dry_run

PUBLISHED = {
    "train_summarization": ("summarization", "ccdv/govreport-summarization:document:train:report"),
    "train_creative_writing": ("creative_writing", "euclaise/writingprompts:default:train:prompt"),
    "train_math_reasoning": ("math_reasoning", "nvidia/Nemotron-CC-Math-v1:3:train:text"),
}
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-4B-Instruct-2507")
SAMPLES = {"4": (128, 8), "5": (104, 10)}


def test_there_is_a_recipe_for_every_corpus():
    assert {file.stem for file in RECIPES.glob("train_*.sh")} == PUBLISHED.keys()


@pytest.mark.slow  # imports the other trainer
def test_with_a_rank_adapters_are_trained_on_one_gpu_with_the_same_settings(tmp_path):
    ran = dry_run(tmp_path, "train_summarization", LORA="32", PLAYERS="4")
    assert ran.returncode == 0, ran.stderr
    config = json.loads(ran.stdout[: ran.stdout.rindex("}") + 1])
    assert config["ds"]["lora"] == {"rank": 32, "alpha": 64, "target_modules": "all-linear"}
    assert (config["game"]["task"], config["data"]["documents"]) == PUBLISHED["train_summarization"]
    assert (config["rollout"]["engine"], config["rollout"]["batch_size"]) == ("vllm", 128)


@pytest.mark.parametrize(
    ("variables", "message"),
    [({"PLAYERS": "6"}, "PLAYERS is 6; 4 or 5 were published"), ({"NODES": "3"}, "no multiple of the 24 processes")],
)
def test_what_was_not_published_or_does_not_fit_is_refused(tmp_path, variables, message):
    ran = dry_run(tmp_path, "train_math_reasoning", **variables)
    assert ran.returncode != 0
    assert message in " ".join((ran.stdout + ran.stderr).replace("│", " ").split())


@pytest.mark.openrlhf
@pytest.mark.parametrize("recipe", PUBLISHED)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("players", SAMPLES)
@pytest.mark.parametrize("nodes", ["1", "2"])
def test_openrlhf_takes_what_a_recipe_prints(tmp_path, recipe, model, players, nodes):
    from tests.trainers.openrlhf.openrlhf_parser import Read, arguments_in

    ran = dry_run(tmp_path, recipe, "--actor.dual_clip", "3", MODEL=model, PLAYERS=players, NODES=nodes)
    assert ran.returncode == 0, ran.stderr
    args = Read(arguments_in(ran.stdout)).args
    documents, samples = SAMPLES[players]
    assert (args.actor.model_name_or_path, args.actor.num_nodes, args.actor.dual_clip) == (model, int(nodes), 3)
    assert (args.rollout.batch_size, args.rollout.n_samples_per_prompt) == (documents, samples)
    assert args.train.batch_size == documents * samples  # one update a step
    assert args.vllm.num_engines * args.vllm.tensor_parallel_size == 8 * int(nodes)
    assert (args.data.max_len, args.rollout.max_new_tokens) == (24576, 4096)
    assert (args.algo.kl.init_coef, args.algo.kl.estimator, args.algo.kl.use_loss) == (0.001, "k3", True)
    assert (args.actor.adam.lr, args.actor.lr_scheduler) == (1e-6, "constant")
    assert args.algo.advantage.is_correction_level == "token"
    assert args.eval.n_samples_per_prompt == int(players)
    assert args.reward.remote_url == ["agent"]


@pytest.mark.openrlhf
def test_every_flag_that_is_named_here_is_openrlhfs_and_none_of_its_others_can_be_taken_for_an_abbreviation():
    from tests.trainers.openrlhf.openrlhf_parser import Read
    from trainers.openrlhf.checks import KNOWN
    from trainers.openrlhf.launch import EXACTLY, HANDED_ON, OF_THE_REFERENCE, REFUSED, TOLD, UNLESS_SAID

    theirs = Read(["--algo.advantage.estimator", "dr_grpo", "--rollout.n_samples_per_prompt", "16"]).flags
    assert {*TOLD, *UNLESS_SAID, *REFUSED, *EXACTLY, *HANDED_ON, *OF_THE_REFERENCE} <= theirs
    assert not [(flag, name) for flag in theirs - KNOWN for name in KNOWN if name.startswith(flag)]
