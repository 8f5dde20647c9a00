"""Check one GPU in a few minutes, with torch and transformers: ``python -m benchmarks.speed.gpu_check``."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from trainers.config import Actor, Adam, Algo, Config, Data, GameConfig, Rollout, StageSampling, Train
from trainers.corpus import Corpus
from trainers.curriculum import Curriculum
from trainers.embedded.logprobs import fed, padded_batches, padded_logprobs, tree_batches, tree_logprobs
from trainers.embedded.loop import deal_games
from trainers.embedded.policy import Policy, policy_of
from trainers.engines.prefix_tree import grow
from trainers.engines.tree_attention import attending
from trainers.rollout import Played, SeatPolicies, rollout
from trainers.samples import Sample, samples_of

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with a token per byte, and a chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        additional_special_tokens=["<|im_start|>"],
    )
    made.chat_template = TEMPLATE
    return made


def random_qwen3(folder: str, small: bool) -> str:
    """Save a model of Qwen3-0.6B's shape with random weights, and the tokenizer of bytes."""
    tokenizer = byte_tokenizer()
    config = Qwen3Config(
        vocab_size=512 if small else 151936,
        hidden_size=32 if small else 1024,
        intermediate_size=64 if small else 3072,
        num_hidden_layers=2 if small else 28,
        num_attention_heads=4 if small else 16,
        num_key_value_heads=2 if small else 8,
        head_dim=8 if small else 128,
        max_position_embeddings=16384,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


PEAK_TFLOPS = {
    "H200": 989,
    "H100": 989,
    "A100": 312,
    "L40S": 362,
    "L4": 121,
    "RTX 4090": 165,
}  # dense bf16, data sheets
COMMENT = "tokens_trained counts each shared token once; flop_use is relative to the dense bf16 peak"


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of play and training."""

    documents: int
    words: int
    performance: int  # tokens
    vote: int
    iterations: int
    rounds: int


REAL = Size(documents=8, words=400, performance=256, vote=16, iterations=4, rounds=3)
SMALL = Size(documents=1, words=15, performance=8, vote=4, iterations=2, rounds=1)


def config_of(size: Size, checkpointing: bool) -> Config:
    """Return the settings: both stages in turn, on the documents that ship with summarization."""
    return Config(
        game=GameConfig(document_words=size.words),
        algo=Algo(schedule="cycle", cycle=(1, 1)),
        actor=Actor(adam=Adam(lr=1e-5), gradient_checkpointing_enable=checkpointing),
        rollout=Rollout(
            batch_size=size.documents,
            n_samples_per_prompt=5,
            micro_batch_size=256,
            max_tokens_per_gpu=2**16,
            performing=StageSampling(max_new_tokens=size.performance),
            detection=StageSampling(max_new_tokens=size.vote),
        ),
        train=Train(max_tokens_per_gpu=16384),
        data=Data(max_len=12288),
    )


class Stopwatch:
    """Measures seconds, and waits for the device."""

    def __init__(self) -> None:
        """Start."""
        self._begun = time.monotonic()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.monotonic()
        seconds, self._begun = now - self._begun, now
        return seconds


def check(folder: str, size: Size, checkpointing: bool, out_of_time: Callable[[], bool]) -> dict[str, Any]:
    """Play and train some iterations, then compare shared with plain on the last samples."""
    config = config_of(size, checkpointing)
    policy = policy_of(config, folder)
    seats = SeatPolicies(policy.engine, config.sampling, config.data.max_len)
    documents = Corpus(config.game.task, None, say=lambda text: print(text, file=sys.stderr)).training()
    curriculum = config.start_curriculum()
    iterations: list[dict[str, Any]] = []
    for step in range(size.iterations):
        if out_of_time():
            break
        batch = [next(documents) for _ in range(size.documents)]
        watch = Stopwatch()
        played = rollout(deal_games(config, batch, curriculum, step, seats), seats)
        generate = watch.lap()
        samples = samples_of(played, curriculum.stages[0], config.game.reward_rules)
        metrics = policy.update(samples, _advantages(curriculum, played, samples))
        iterations.append(_iteration(policy, samples, metrics, generate, watch.lap(), _generated(played)))
        curriculum = curriculum.after([one.game for one in played])
        print(json.dumps(iterations[-1]), file=sys.stderr)
    if not iterations:
        raise ValueError("no iteration fitted into --minutes; give more")
    return {
        "parameters": sum(parameter.numel() for parameter in policy.model.parameters()),
        "shared_prompts": policy.sharing or f"off: {policy.sharing_refused}",
        "iterations": iterations,
        "same_log_probabilities": _agreement(policy, samples[:10]) if policy.sharing else None,
        "shared_against_plain": _shared_against_plain(policy, samples, size.rounds, out_of_time),
    }


def _advantages(curriculum: Curriculum, played: Sequence[Played], samples: Sequence[Sample]) -> list[float]:
    """Return the curriculum's advantages; +1 and -1 in turn if no vote could be read, as with random weights."""
    by_seat = curriculum.advantages([one.game for one in played], curriculum.stages[0])
    advantages = [by_seat[sample.game, sample.seat] for sample in samples]
    return advantages if any(advantages) else _in_turn(samples)


def _in_turn(samples: Sequence[Sample]) -> list[float]:
    return [(-1.0) ** i for i in range(len(samples))]


def _generated(played: Sequence[Played]) -> int:
    return sum(len(reply.ids) for one in played for stage in one.replies.values() for reply in stage.values())


def _iteration(
    policy: Policy,
    samples: Sequence[Sample],
    metrics: dict[str, float],
    generate_s: float,
    update_s: float,
    generated: int,
) -> dict[str, Any]:
    trained = grow([fed(sample) for sample in samples])
    peak = _peak_tflops()
    flops = _flops(policy, samples)
    return {
        "stage": str(samples[0].stage),
        "prompt_tokens": max(len(sample.prompt_ids) for sample in samples),
        "generate_s": round(generate_s, 3),
        "generated_tokens_per_s": round(generated / generate_s, 1),
        "update_s": round(update_s, 3),
        "tokens_trained": len(trained.ids),
        "trained_tokens_per_s": round(len(trained.ids) / update_s, 1),
        "tflops": round(flops / update_s / 1e12, 2),
        "flop_use": round(flops / update_s / 1e12 / peak, 4) if peak else None,
        **{name: metrics[name] for name in ("loss", "kl", "grad_norm", "clip_ratio")},
        "logp_difference_mean": metrics["sampling/logp_difference_mean"],
        "logp_difference_max": metrics["sampling/logp_difference_max"],
    }


def _flops(policy: Policy, samples: Sequence[Sample]) -> float:
    """Count the operations of forward and backward of the learner and forward of the reference, each shared token once."""
    shape = policy.model.config
    tree = grow([fed(sample) for sample in samples])
    embeddings = policy.model.get_input_embeddings().weight.numel()
    inner = sum(parameter.numel() for parameter in policy.model.parameters()) - embeddings
    replies = sum(len(sample.ids) for sample in samples)
    seen = sum(depth + 1 for depth in tree.depths)
    head_dim = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
    attention = 4 * shape.num_hidden_layers * shape.num_attention_heads * head_dim * seen
    return 4 * (2 * inner * len(tree.ids) + 2 * embeddings * replies + attention)


def _peak_tflops() -> int | None:
    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name()
    return next((peak for known, peak in PEAK_TFLOPS.items() if known in name), None)


def _agreement(policy: Policy, samples: Sequence[Sample]) -> dict[str, float]:
    """Compare the tree's log-probabilities with those of whole samples."""
    method = policy.method_for(samples)
    with torch.no_grad(), policy.precision(), attending(policy.model, method):
        shared, _ = tree_logprobs(policy.model, samples, str(method), 1.0)
    with torch.no_grad(), policy.precision():
        plain, _ = padded_logprobs(policy.model, samples, policy.pad, 1.0)
    gap = (shared - plain).abs()
    return {"mean": gap.mean().item(), "max": gap.max().item()}


def _shared_against_plain(
    policy: Policy, samples: Sequence[Sample], rounds: int, out_of_time: Callable[[], bool]
) -> dict[str, Any]:
    """Time the same update both ways in turn: least seconds, peak memory, micro-batches."""
    method = policy.sharing
    rows: dict[str, dict[str, Any]] = {}
    advantages = _in_turn(samples)
    pairs = list(zip(samples, advantages, strict=True))
    budget = policy.max_tokens
    for way, sharing, cut in (("shared", method, tree_batches), ("plain", None, padded_batches)):
        rows[way] = {"seconds": None, "micro_batches": len(cut(pairs, budget)), "sharing": sharing}
    for _ in range(rounds):
        for row in rows.values():
            if out_of_time():
                break
            policy.sharing = row["sharing"]
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            watch = Stopwatch()
            policy.update(samples, advantages)
            row["seconds"] = min(watch.lap(), row["seconds"] or float("inf"))
            row["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else None
    policy.sharing = method
    shared, plain = rows["shared"]["seconds"], rows["plain"]["seconds"]
    return {**rows, "ratio": plain / shared if shared and plain else None}


def main(argv: Sequence[str]) -> int:
    """Check what runs here and print the report."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.gpu_check", description=__doc__)
    parser.add_argument("--weights", help="also train the model in this transformers folder")
    parser.add_argument("--minutes", type=float, default=7.5, help="begin nothing new after this")
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing")
    parser.add_argument("--small", action="store_true", help="tiny shapes, to try the script on a CPU")
    args = parser.parse_args(argv)
    begun = time.monotonic()
    size = SMALL if args.small else REAL

    def out_of_time() -> bool:
        return time.monotonic() - begun > 60 * args.minutes

    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "comment": COMMENT,
    }
    with tempfile.TemporaryDirectory() as place:
        report["random_qwen3"] = check(random_qwen3(place, args.small), size, args.checkpointing, out_of_time)
    if args.weights:
        report["weights"] = check(args.weights, size, args.checkpointing, out_of_time)
    report["seconds"] = round(time.monotonic() - begun, 1)
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
