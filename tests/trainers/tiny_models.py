"""Random models of several architectures, two layers each, with the tiny world's tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests.trainers import tiny_world

ROTARY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
}
# Wide weights, so that every token matters to every other; dropout as GPT-2 has it.
ARCHITECTURES = {
    "llama": lambda sizes: LlamaForCausalLM(LlamaConfig(**ROTARY, **sizes, initializer_range=0.3)),
    "qwen3": lambda sizes: Qwen3ForCausalLM(Qwen3Config(**ROTARY, **sizes, initializer_range=0.3)),
    "gpt2": lambda sizes: GPT2LMHeadModel(
        GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=128, **sizes, initializer_range=0.3)
    ),
    "gemma3": lambda sizes: Gemma3ForCausalLM(
        Gemma3TextConfig(
            **{**ROTARY, "num_hidden_layers": 4},
            **sizes,
            sliding_window=WINDOW,
            layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
            query_pre_attn_scalar=8,
            initializer_range=0.15,
        )
    ),
}
WINDOW = 4  # tokens that a sliding layer looks back: shorter than the tests' prompts
# Architectures that differ in what a prefix tree needs.
SLIDING = {
    "mistral": lambda sizes: MistralForCausalLM(
        MistralConfig(**ROTARY, **sizes, sliding_window=WINDOW, initializer_range=0.3)
    ),
}
UNSERVED = {
    "mamba": lambda sizes: MambaForCausalLM(MambaConfig(hidden_size=32, num_hidden_layers=2, **sizes)),
    "neo": lambda sizes: GPTNeoForCausalLM(  # its local layers look at places, not at positions
        GPTNeoConfig(
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=32,
            max_position_embeddings=128,
            **sizes,
        )
    ),
    "bloom": lambda sizes: BloomForCausalLM(BloomConfig(hidden_size=32, n_layer=2, n_head=4, **sizes)),
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
        return {**ARCHITECTURES, **SLIDING, **UNSERVED}[architecture](sizes).eval()


def save(architecture: str, folder: Path) -> Path:
    """A folder for ``from_pretrained``."""
    model(architecture).save_pretrained(folder)
    tiny_world.tokenizer().save_pretrained(folder)
    return folder
