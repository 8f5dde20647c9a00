"""How much faster shared prompts make an update: ``python -m benchmarks.throughput update``.

All ways take turns within one run, and each figure is the least CPU time of its rounds, so that ratios hold on a busy
machine. Plain is a padded batch with logits at reply positions only and the same checkpointing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from spy_env import Stage
from trainers.samples import Sample

WAYS = ("plain", "mask", "cascade")
VOCABULARY, LAYERS = 49152, 30  # SmolLM2-135M's; timed by default at a third of both


@dataclass(frozen=True, slots=True)
class Scenario:
    """Samples of one game: prompts of ``prompt`` tokens of which the first ``shared`` are everyone's."""

    name: str
    samples: int
    alike: int  # how many samples have one prompt; each other goes its own way after ``shared`` tokens
    prompt: int
    shared: int
    reply: int
    lora: bool = False


SCENARIOS = (
    Scenario("5 players, 512-token prompts, the spy shares 40 %, 64-token replies", 5, 4, 512, 205, 64),
    Scenario("the same with LoRA", 5, 4, 512, 205, 64, lora=True),
    Scenario("8 referees, one 768-token prompt, 24-token replies", 8, 8, 768, 768, 24),
    Scenario("8 voters whose prompts share all but the last 40 of 768 tokens", 8, 0, 768, 728, 24),
    Scenario("5 players, one 2,048-token prompt, 128-token replies", 5, 5, 2048, 2048, 128),
)


def samples_of(scenario: Scenario, vocabulary: int, seed: int = 0) -> list[Sample]:
    """Random tokens in the scenario's layout."""
    rng = Random(seed)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(rng.randrange(5, vocabulary) for _ in range(count))

    common = tokens(scenario.shared)
    public = common + tokens(scenario.prompt - scenario.shared)
    return [
        Sample(
            game="0",
            stage=Stage.PERFORMING,
            seat=f"player_{i + 1}",
            role="civilian",
            prompt_ids=public if i < scenario.alike else common + tokens(scenario.prompt - scenario.shared),
            ids=tokens(scenario.reply),
            logprobs=(-10.0,) * scenario.reply,
            truncated=False,
            reward=0.0,
        )
        for i in range(scenario.samples)
    ]


def random_model(layers: int, vocabulary: int, lora: bool, checkpointing: bool) -> Any:
    """SmolLM2-135M's shape with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
    )
    model: Any = LlamaForCausalLM(config)
    if lora:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(
            model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
        )
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
        return model.train()
    return model.eval()


def forward_and_backward(model: Any, samples: Sequence[Sample], way: str) -> None:
    """What an update computes, less the optimizer: log-probabilities of all reply tokens, and the gradient of their sum."""
    from trainers.embedded.logprobs import padded_logprobs, tree_logprobs
    from trainers.tree_attention import attending

    model.zero_grad(set_to_none=True)
    with attending(model, None if way == "plain" else way):
        if way == "plain":
            logprobs_N, _ = padded_logprobs(model, samples, 0, 1.0)
        else:
            logprobs_N, _ = tree_logprobs(model, samples, way, 1.0)
        logprobs_N.sum().backward()


def least_times(work: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The least CPU seconds of each, all taking turns; one round before isn't counted."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(1 + rounds):
        for name, run in work.items():
            begun = time.process_time()
            run()
            times[name].append(time.process_time() - begun)
    return {name: min(measured[1:]) for name, measured in times.items()}


def peak_memory(scenario: Scenario, way: str, layers: int, vocabulary: int, checkpointing: bool) -> float:
    """MB above the loaded model, as a process of its own sees them."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak, (scenario, way, layers, vocabulary, checkpointing))


def _peak(scenario: Scenario, way: str, layers: int, vocabulary: int, checkpointing: bool) -> float:
    model = random_model(layers, vocabulary, scenario.lora, checkpointing)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    forward_and_backward(model, samples_of(scenario, vocabulary), way)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def measured(scenario: Scenario, args: argparse.Namespace) -> dict[str, Any]:
    """One scenario: token counts, seconds by way, ratios to plain, and memory where it is asked for."""
    from trainers.embedded.logprobs import fed, tree_of

    samples = samples_of(scenario, args.vocabulary)
    model = random_model(args.layers, args.vocabulary, scenario.lora, args.checkpointing)
    work = {way: partial(forward_and_backward, model, samples, way) for way in WAYS}
    seconds = least_times(work, args.rounds)
    row = {
        "scenario": scenario.name,
        "tokens_plain": sum(len(fed(sample)) for sample in samples),
        "tokens_tree": len(tree_of(samples).ids),
        "seconds": {way: round(value, 3) for way, value in seconds.items()},
        "ratio": {way: round(seconds["plain"] / seconds[way], 2) for way in WAYS[1:]},
    }
    if args.memory:
        row["peak_mb"] = {
            way: round(peak_memory(scenario, way, args.layers, args.vocabulary, args.checkpointing)) for way in WAYS
        }
    return row


def main(argv: Sequence[str]) -> int:
    """Measure and print one JSON object a scenario."""
    parser = argparse.ArgumentParser("python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("what", choices=["update"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=LAYERS // 3)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY // 3)
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing, in all ways")
    parser.add_argument(
        "--memory", action="store_true", help="also the peak memory of each way, in a process of its own"
    )
    parser.add_argument("--scenarios", type=int, nargs="*", default=range(1, len(SCENARIOS) + 1), help="by number")
    args = parser.parse_args(argv)
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    for number in args.scenarios:
        print(json.dumps(measured(SCENARIOS[number - 1], args)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
