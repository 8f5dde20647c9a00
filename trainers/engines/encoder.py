"""From prompt to token ids, as every local engine reads them, and the tokens that end or pad a reply."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from trainers.engines.protocol import Reader


class Encoder:
    """Turns prompts into token ids. The chat template goes straight to ids, so there is one BOS."""

    def __init__(self, tokenizer: Any, template_options: dict[str, Any] | None = None) -> None:
        """``template_options`` go to the chat template, for example ``{"enable_thinking": False}`` for Qwen3.

        Raises:
            ValueError: the tokenizer has no chat template.
        """
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError(
                "the tokenizer has no chat template; take an instruction-tuned model, or set one in its folder"
            )
        self.tokenizer = tokenizer
        self._options = template_options or {}
        added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
        self._special = sorted({*tokenizer.all_special_tokens, *added}, key=len, reverse=True)
        self.encode = lru_cache(maxsize=256)(self._encode)  # civilians share prompts, which are also counted before

    def _encode(self, prompt: str, prefill: str = "") -> tuple[int, ...]:
        message = [{"role": "user", "content": self._defused(prompt)}]
        ids = self.tokenizer.apply_chat_template(
            message, add_generation_prompt=True, return_dict=False, **self._options
        )
        return (*ids, *self.tokenizer(prefill, add_special_tokens=False)["input_ids"])

    def _defused(self, text: str) -> str:
        """Break up the special tokens in a text, so that no player can end its turn or begin another's."""
        for token in self._special:
            if token in text:
                text = text.replace(token, f"{token[0]} {token[1:]}" if len(token) > 1 else " ")
        return text

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        return self.tokenizer.decode(ids, skip_special_tokens=True)


class EncodingReader(Reader):
    """A reader, and so a base of engines, that counts tokens with its encoder."""

    encoder: Encoder

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """Return the prompt's length in tokens, chat template and prefill included."""
        return len(self.encoder.encode(prompt, prefill))


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return every token that ends a reply.

    Raises:
        ValueError: neither the generation config nor the tokenizer names one.
    """
    declared = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = {declared} if isinstance(declared, int) else set(declared or ())
    ends |= {tokenizer.eos_token_id} - {None}
    if not ends:
        raise ValueError("the model names no end-of-sequence token; set eos_token_id in its generation config")
    return frozenset(ends)


@lru_cache(maxsize=8)  # a call reads the whole vocabulary
def tokens_that_hold(stop: str, encoder: Encoder) -> frozenset[int]:
    """Return every token whose own text holds ``stop``; none for an empty one."""
    if not stop:
        return frozenset()
    return frozenset(token for token in encoder.tokenizer.get_vocab().values() if stop in encoder.decode([token]))


def pad_token(tokenizer: Any, ends: frozenset[int]) -> int:
    """Return the tokenizer's padding, or an end if it has none: padding is always masked."""
    return tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(ends)
