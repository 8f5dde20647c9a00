"""A model and a tokenizer made in code, for where nothing can be downloaded."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A token a byte, and a chat template."""
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
    """Qwen3-0.6B's shape with random weights, saved with the tokenizer of bytes."""
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
