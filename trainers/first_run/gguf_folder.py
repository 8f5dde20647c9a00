"""A plain transformers folder, written from a GGUF file of a small Llama model.

transformers reads GGUF too, but needs accelerate for it and takes `<|im_start|>` for SmolLM2's end of sequence, so that
no reply would end. This needs numpy, gguf, safetensors and tokenizers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# GGUF's names for a Llama's parameters (gguf.constants.TENSOR_NAMES), and transformers' (LlamaForCausalLM).
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_model_folder(gguf_file: Path, folder: Path) -> None:
    """Write config, weights (as float32, so that dequantised values aren't rounded again) and tokenizer into a new folder.

    Raises:
        ValueError: the model isn't a Llama with SmolLM's tokenizer, or has a parameter that no such Llama has.
    """
    from gguf import GGUFReader
    from safetensors.numpy import save_file

    reader = GGUFReader(gguf_file)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    kind = (fields["general.architecture"], fields["tokenizer.ggml.model"], fields["tokenizer.ggml.pre"])
    if kind != ("llama", "gpt2", "smollm"):
        raise ValueError(
            f"{gguf_file.name} holds {kind[0]!r} with tokenizer {kind[1:]}; only 'llama' with ('gpt2', 'smollm') "
            "can be written as a folder here: for another model use a transformers folder made by its authors"
        )
    weights = _weights(reader, fields)
    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    _tokenizer(fields).save(str(folder / "tokenizer.json"))
    configs = {
        "config.json": _config(fields, tied="lm_head.weight" not in weights),
        "generation_config.json": _special_ids(fields),
        "tokenizer_config.json": _tokenizer_config(fields),
    }
    for name, config in configs.items():
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, encoding="utf-8")


def undo_rotary_order(weight_OI: np.ndarray, heads: int) -> np.ndarray:
    """Put the rows of a query or key projection into transformers' order; O = heads x head size, I = input size.

    Rotary embedding turns pairs of rows. transformers pairs row i of a head with row i + half; llama.cpp puts the two
    side by side (LlamaModel.permute in its convert_hf_to_gguf.py).
    """
    half = weight_OI.shape[0] // heads // 2
    return weight_OI.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(weight_OI.shape)


def _weights(reader: Any, fields: dict[str, Any]) -> dict[str, np.ndarray]:
    import numpy as np
    from gguf.quants import dequantize

    heads_of = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    weights = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.removesuffix(".weight").split(".")[-1]
        if part in heads_of:
            weight = undo_rotary_order(weight, heads_of[part])
        weights[_transformers_name(tensor.name)] = np.ascontiguousarray(weight, dtype=np.float32)
    return weights


def _transformers_name(name: str) -> str:
    """Translate a name, such as `blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    match name.split("."):
        case [part, "weight"] if part in TOP_NAMES:
            return f"{TOP_NAMES[part]}.weight"
        case ["blk", layer, part, "weight"] if part in LAYER_NAMES:
            return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"
    raise ValueError(f"a Llama has no tensor {name!r}; this file holds another kind of model")


def _config(fields: dict[str, Any], tied: bool) -> dict[str, Any]:
    rope_theta = _decimal(fields["llama.rope.freq_base"])
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": fields["llama.rope.dimension_count"],
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": _decimal(fields["llama.attention.layer_norm_rms_epsilon"]),
        "rope_parameters": {"rope_type": "default", "rope_theta": rope_theta},
        "rope_theta": rope_theta,  # for transformers before 5
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "dtype": "float32",
        **_special_ids(fields),
    }


def _special_ids(fields: dict[str, Any]) -> dict[str, int]:
    names = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    return {key: fields[f"tokenizer.ggml.{name}_token_id"] for key, name in names.items()}


def _tokenizer(fields: dict[str, Any]) -> Any:
    """Build llama.cpp's tokenizer `smollm`: every digit alone, then GPT-2's byte-level words."""
    from gguf import TokenType
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: id_ for id_, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    specials = [token for token, kind in zip(tokens, kinds, strict=True) if kind == TokenType.CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return tokenizer


def _tokenizer_config(fields: dict[str, Any]) -> dict[str, Any]:
    tokens = fields["tokenizer.ggml.tokens"]
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    return {
        # This class takes tokenizer.json as it is; a model's own class would build another pre-tokenizer.
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{key: tokens[fields[f"tokenizer.ggml.{name}_token_id"]] for key, name in names.items()},
        "model_max_length": fields["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": fields["tokenizer.chat_template"],
    }


def _decimal(stored: float) -> float:
    """Return the number that was meant: GGUF keeps float32, so 1e-05 reads as 9.999999747378752e-06."""
    import numpy as np

    return float(str(np.float32(stored)))
