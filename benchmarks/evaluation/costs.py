"""What a judge costs: what was spent, what is still to come, and how much one more question may take.

Tokens are what the endpoint bills where it tells them; elsewhere they are guessed from bytes, and counted as guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from benchmarks.evaluation.contestants import BYTES_A_TOKEN

REPLY_TOKENS = 300  # our guess of a verdict with its reasons, until replies were seen
CALIBRATED = 8  # replies seen before their mean takes the guess's place; we chose it


class CostCapError(ValueError):
    """The next question could cost more than the cap leaves. What was answered is kept."""


class Price(NamedTuple):
    """Dollars per million tokens of prompt and of reply."""

    prompt: float
    reply: float

    def of(self, prompt_tokens: float, reply_tokens: float) -> float:
        """Dollars for so many tokens."""
        return (self.prompt * prompt_tokens + self.reply * reply_tokens) / 1e6


class Bill:
    """What one judge has answered in an output folder, earlier runs included, and what more of it would cost."""

    def __init__(self, judge: str, price: Price | None, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        """``rows``: finished verdicts. Those of other judges count with what they cost then."""
        self.price, self.spent = price, 0.0
        self.replies = self.guessed = self.prompt_tokens = self.reply_tokens = 0
        self._told = self._told_bytes = self._told_prompt = self._told_reply = 0
        for row in rows:
            if row["judge"] == judge:
                self.add(row["prompt_bytes"], row["text"], row["usage"], row["cost"])
            else:
                self.spent += row["cost"] or 0.0

    def add(
        self, prompt_bytes: int, reply: str, usage: Iterable[int] | None, cost: float | None = None
    ) -> float | None:
        """Count a reply; its cost in dollars, which is ``cost`` where it was known before, or None without a price."""
        told = tuple(usage or ())
        if not any(told):  # some endpoints tell zeros
            told = ()
        prompt_tokens, reply_tokens = told or (tokens(prompt_bytes), tokens(len(reply.encode("utf-8", "replace"))))
        if told:
            self._told, self._told_bytes = self._told + 1, self._told_bytes + prompt_bytes
            self._told_prompt, self._told_reply = self._told_prompt + prompt_tokens, self._told_reply + reply_tokens
        else:
            self.guessed += 1
        self.replies += 1
        self.prompt_tokens += prompt_tokens
        self.reply_tokens += reply_tokens
        if cost is None and self.price:
            cost = self.price.of(prompt_tokens, reply_tokens)
        self.spent += cost or 0.0
        return cost

    def estimate(self, prompts_bytes: Iterable[int], longest_reply: int) -> tuple[int, int]:
        """About how many tokens these prompts and their replies will be."""
        sizes = list(prompts_bytes)
        calibrated = self._told >= CALIBRATED
        a_reply = self._told_reply / self._told if calibrated else min(REPLY_TOKENS, longest_reply)
        return round(sum(map(self._prompt, sizes))), round(a_reply * len(sizes))

    def worst(self, prompt_bytes: int, longest_reply: int) -> float:
        """Dollars for one question whose reply is as long as it may be; 0 without a price."""
        return self.price.of(self._prompt(prompt_bytes), longest_reply) if self.price else 0.0

    def _prompt(self, size: int) -> float:
        if self._told >= CALIBRATED and self._told_bytes:
            return size * self._told_prompt / self._told_bytes
        return tokens(size)


def tokens(size: int) -> int:
    """About how many tokens so many bytes are; rather too many."""
    return -(-size // BYTES_A_TOKEN)


def dollars(amount: float) -> str:
    """An amount in dollars, with enough digits to be told from nothing."""
    return f"${amount:,.2f}" if amount >= 0.1 or not amount else f"${amount:.2g}"
