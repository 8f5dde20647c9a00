"""The speed of an update with shared prompts: ``python -m benchmarks.speed.throughput update``.

``python -m benchmarks.speed.throughput rollout`` is in ``rollout.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from spy_env import Stage
from trainers.samples import Sample

if TYPE_CHECKING:
    from trainers.embedded.logprobs import Pair
    from trainers.embedded.loss import LossRules


@dataclass(frozen=True, slots=True)
class Scenario:
    """Samples of one game: prompts of ``prompt`` tokens, of which all share the first ``shared``."""

    name: str
    samples: int
    alike: int  # samples with the same prompt; each other one differs after ``shared`` tokens
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
    """Make samples of random tokens in the scenario's layout, with the log-probability of a random model, so that some are clipped."""
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
            logprobs=(-math.log(vocabulary),) * scenario.reply,
            truncated=False,
            reward=0.0,
        )
        for i in range(scenario.samples)
    ]


WAYS = ("plain", "mask", "cascade")
VOCABULARY, LAYERS = 49152, 30  # SmolLM2-135M's; by default a third of both is timed
ADVANTAGES = (1.0, -0.5)  # in turn; they don't cancel, so that losses can be compared
AGREE = 1e-3  # relative difference that losses and norms of gradients may have


@dataclass(frozen=True, slots=True)
class Way:
    """A way to compute an update: ``run`` puts the gradient into ``model`` and returns the loss."""

    model: Any
    run: Callable[[], float]


def random_model(layers: int, vocabulary: int, lora: bool, checkpointing: bool) -> Any:
    """Make a model of SmolLM2-135M's shape with random weights."""
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


def forward_and_backward(model: Any, pairs: Sequence[Pair], way: str) -> float:
    """Compute an update but for the optimizer: the loss, without a KL term, and its gradient. Return the loss."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from trainers.embedded.logprobs import padded_logprobs, tree_logprobs
    from trainers.embedded.loss import Whole, loss_of
    from trainers.engines.tree_attention import attending

    samples = [sample for sample, _ in pairs]
    lengths = [len(sample.ids) for sample in samples]
    old_BT = pad_sequence([torch.tensor(sample.logprobs) for sample in samples], batch_first=True)
    mask_BT = pad_sequence([torch.ones(length) for length in lengths], batch_first=True)
    advantages_B = torch.tensor([advantage for _, advantage in pairs])
    model.zero_grad(set_to_none=True)
    with attending(model, None if way == "plain" else way):
        if way == "plain":
            logprobs_N, _ = padded_logprobs(model, samples, 0, 1.0)
        else:
            logprobs_N, _ = tree_logprobs(model, samples, way, 1.0)
        logprobs_BT = pad_sequence(logprobs_N.split(lengths), batch_first=True)
        whole = Whole(tokens=sum(lengths), samples=len(samples))
        loss = loss_of(logprobs_BT, old_BT, None, advantages_B, mask_BT, loss_rules(), whole)
        loss.value.backward()
    return loss.value.item()


def loss_rules() -> LossRules:
    """Return the published loss without its KL term, which would need a reference."""
    from trainers.embedded.loss import LossRules

    return LossRules(kl_coef=0)


def ways_of(
    names: Sequence[str], scenario: Scenario, layers: int, vocabulary: int, checkpointing: bool
) -> dict[str, Way]:
    """Return the ways by name. All use one model, but TRL's a copy, since TRL changes the model's forward."""
    samples = samples_of(scenario, vocabulary)
    pairs = [(sample, ADVANTAGES[i % len(ADVANTAGES)]) for i, sample in enumerate(samples)]
    make = partial(random_model, layers, vocabulary, scenario.lora, checkpointing)
    model = make()
    ways = {name: Way(model, partial(forward_and_backward, model, pairs, name)) for name in names if name != "trl"}
    if "trl" in names:
        from benchmarks.speed.trl_update import training_step

        copy = make() if ways else model
        ways["trl"] = Way(copy, training_step(copy, pairs, loss_rules(), checkpointing))
    return ways


def outcomes(ways: Mapping[str, Way]) -> dict[str, dict[str, float]]:
    """Run each way once and return loss and norm of the gradient.

    Raises:
        RuntimeError: they differ, so that times can't be compared.
    """
    import torch

    results: dict[str, dict[str, float]] = {"loss": {}, "grad_norm": {}}
    for name, way in ways.items():
        results["loss"][name] = way.run()
        gradients = [parameter.grad for parameter in way.model.parameters() if parameter.grad is not None]
        results["grad_norm"][name] = torch.nn.utils.get_total_norm(gradients).item()
    for quantity, values in results.items():
        if not all(math.isclose(values["plain"], value, rel_tol=AGREE) for value in values.values()):
            raise RuntimeError(
                f"ways differ by more than {AGREE} in {quantity}, so their times can't be compared: {values}"
            )
    return results


def least_times(ways: Mapping[str, Way], rounds: int) -> dict[str, float]:
    """Return the least CPU seconds of each way, with all ways in turn."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begun = time.process_time()
            way.run()
            times[name].append(time.process_time() - begun)
    return {name: min(measured) for name, measured in times.items()}


def peak_memory(scenario: Scenario, way: str, layers: int, vocabulary: int, checkpointing: bool) -> float:
    """Return the peak memory in MB above the loaded model, measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak, (scenario, way, layers, vocabulary, checkpointing))


def _peak(scenario: Scenario, name: str, layers: int, vocabulary: int, checkpointing: bool) -> float:
    way = ways_of([name], scenario, layers, vocabulary, checkpointing)[name]
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak of loading
    before = _peak_kb()
    way.run()
    return (_peak_kb() - before) / 1024


def _peak_kb() -> int:
    """Return this process's peak in KB. ``ru_maxrss`` would count the parent's at the start, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def measured(scenario: Scenario, args: argparse.Namespace) -> dict[str, Any]:
    """Measure one scenario: tokens, loss and gradient, seconds by way, the speed-up over plain and over TRL, and memory."""
    from trainers.embedded.logprobs import fed, tree_of

    samples = samples_of(scenario, args.vocabulary)
    names = (*WAYS, "trl") if args.trl else WAYS
    ways = ways_of(names, scenario, args.layers, args.vocabulary, args.checkpointing)
    agreed = outcomes(ways)
    seconds = least_times(ways, args.rounds)
    row = {
        "scenario": scenario.name,
        "tokens_plain": sum(len(fed(sample)) for sample in samples),
        "tokens_tree": len(tree_of(samples).ids),
        **{
            quantity: {name: float(f"{value:.6g}") for name, value in values.items()}
            for quantity, values in agreed.items()
        },
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "ratio": {name: round(seconds["plain"] / seconds[name], 2) for name in WAYS[1:]},
    }
    if args.trl:
        row["ratio_to_trl"] = {name: round(seconds["trl"] / seconds[name], 2) for name in WAYS}
        row["versions"] = {package: version(package) for package in ("torch", "transformers", "trl")}
    if args.memory:
        row["peak_mb"] = {
            name: round(peak_memory(scenario, name, args.layers, args.vocabulary, args.checkpointing)) for name in names
        }
    return row


def main(argv: Sequence[str]) -> int:
    """Measure and print one JSON object per scenario."""
    if argv[:1] == ["rollout"]:
        from benchmarks.speed.rollout import main as measure_rollout

        return measure_rollout(argv[1:])
    parser = argparse.ArgumentParser("python -m benchmarks.speed.throughput", description=__doc__)
    parser.add_argument("what", choices=["update", "rollout"], help="rollout has flags of its own: rollout --help")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=LAYERS // 3)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY // 3)
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing, in all ways")
    parser.add_argument(
        "--memory", action="store_true", help="also the peak memory of each way, in a process of its own; Linux only"
    )
    parser.add_argument("--trl", action="store_true", help="also TRL's GRPOTrainer on the same samples")
    parser.add_argument("--scenarios", type=int, nargs="*", default=range(1, len(SCENARIOS) + 1), help="by number")
    args = parser.parse_args(argv)
    os.environ["OMP_NUM_THREADS"] = "1"
    if args.trl:
        from trainers.trl.checks import check_version

        try:
            check_version()
        except ValueError as error:
            parser.error(f"--trl: {error}")
    import torch

    torch.set_num_threads(1)
    for number in args.scenarios:
        print(json.dumps(measured(SCENARIOS[number - 1], args)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
