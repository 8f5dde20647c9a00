"""verl's client of its engines with the model's part said by script; it travels to Ray's workers."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from verl.workers.rollout.replica import TokenOutput

from tests.trainers import tiny_world

VOTE = 4  # new tokens of a vote, by which it is known


class ScriptedClient:
    """What is said follows from the prompt and from how often it was asked; ``fails`` counts calls that raise."""

    def __init__(self, fails: int = 0) -> None:
        self.fails, self.asked = fails, 0

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        tokens = tiny_world.tokenizer()
        self.asked += 1
        number = self.asked
        if number <= self.fails:
            raise RuntimeError("the engine is gone")
        await asyncio.sleep(0.001)
        chance = hashlib.sha256(f"{prompt_ids}{number}".encode()).digest()
        vote = sampling_params["max_tokens"] == VOTE
        words = (
            f"\\boxed{{{number**2 % 4 + 1}}}" if vote else " ".join(tiny_world.WORDS[byte % 6] for byte in chance[:3])
        )
        ids = [*tokens(words, add_special_tokens=False)["input_ids"], tokens.eos_token_id]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed")
