"""Random models with heads as wide as vLLM's attention on a CPU wants them, and the tiny world's tokenizer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from tests.trainers import tiny_world

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,  # wide weights, so that every token matters to every other
}
ARCHITECTURES = {
    "llama": lambda sizes: LlamaForCausalLM(LlamaConfig(**SIZES, **sizes, tie_word_embeddings=False)),
    "tied llama": lambda sizes: LlamaForCausalLM(LlamaConfig(**SIZES, **sizes, tie_word_embeddings=True)),
    "qwen3": lambda sizes: Qwen3ForCausalLM(Qwen3Config(**SIZES, **sizes, tie_word_embeddings=False)),
    "tied qwen3": lambda sizes: Qwen3ForCausalLM(Qwen3Config(**SIZES, **sizes, tie_word_embeddings=True)),
}


def model(architecture: str) -> PreTrainedModel:
    """The same weights on every call; the global generator is left as it was."""
    tokens = tiny_world.tokenizer()
    sizes = {
        "vocab_size": len(tokens),
        "bos_token_id": None,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad_token_id,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ARCHITECTURES[architecture](sizes).eval()


def save(architecture: str, folder: Path, steps: int = 0) -> str:
    """A folder for ``from_pretrained``, whose generation config asks for what training must not do.

    After some ``steps`` the model has seen the form of votes.
    """
    made = model(architecture)
    if steps:
        tiny_world.teach_the_form(made, tiny_world.tokenizer(), steps, Random(0))
    made.generation_config.update(do_sample=True, top_k=2, top_p=0.5, repetition_penalty=1.3)
    made.save_pretrained(folder)
    tiny_world.tokenizer().save_pretrained(folder)
    return str(folder)
