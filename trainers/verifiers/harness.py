"""How a seat's model is asked: one chat completion, in this process. A game asks often, and a process for each is slow."""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI


class ReplyHarnessConfig(vf.HarnessConfig):
    """Nothing of its own."""


class ReplyHarness(vf.Harness[ReplyHarnessConfig]):
    """One prompt, one reply, no tools; through verifiers' interception, which samples, retries and records."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Ask once. What the interception refuses raises, and verifiers records it on the trace."""
        system, prompt = self.resolve_text_prompt(data)
        messages: list[Any] = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0, timeout=None) as client:
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
