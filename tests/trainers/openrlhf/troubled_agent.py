"""The executor, loaded by path as OpenRLHF loads it, on an engine that misbehaves where a test says so.

A test writes ``trouble.json`` into the run's folder: by the row's seed, what happens to which of the row's requests.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from trainers.cluster import group_rollout
from trainers.cluster.prompt_rows import from_json
from trainers.openrlhf import agent

TROUBLE, ASKED = "trouble.json", "asked.jsonl"
group_rollout.MEETING_S = 4.0  # a test waits for it


class AgentExecutor(agent.AgentExecutor):
    """As many executors as runs: to each test the engines are as new."""

    def __init__(self) -> None:
        self._executors: dict[str, agent.AgentExecutor] = {}
        self._asked: dict[tuple[str, str], int] = {}

    async def execute(
        self,
        prompt: str,
        label: Any,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        row = from_json(prompt)
        executor = self._executors.setdefault(row.run.folder, agent.AgentExecutor())
        engine = TroubledEngine(llm_engine, Path(row.run.folder), row.seed, self._asked)
        return await executor.execute(prompt, label, sampling_params, max_length, hf_tokenizer, engine, images)


class TroubledEngine:
    """OpenRLHF's engine, asked on behalf of a row."""

    def __init__(self, engine: Any, folder: Path, seed: str, asked: dict[tuple[str, str], int]) -> None:
        self._engine, self._folder, self._seed, self._asked = engine, folder, seed, asked

    async def generate(self, prompt_token_ids: list[int], sampling_params: Any) -> Any:
        key = (str(self._folder), self._seed)
        number = self._asked[key] = self._asked.get(key, -1) + 1
        with (self._folder / ASKED).open("a") as lines:
            lines.write(json.dumps({"row": self._seed, "number": number, "ids": list(prompt_token_ids)}) + "\n")
        for trouble, (first, last) in self._troubles().items():
            if first <= number < last:
                await self._befall(trouble)
        return await self._engine.generate(prompt_token_ids, sampling_params)

    def _troubles(self) -> dict[str, list[int]]:
        file = self._folder / TROUBLE
        return json.loads(file.read_text()).get(self._seed, {}) if file.exists() else {}

    async def _befall(self, trouble: str) -> None:
        if trouble == "raises":
            raise RuntimeError("the engine is in trouble")
        while trouble in self._troubles():  # "waits" ends with the trouble, "hangs" never does
            await asyncio.sleep(0.05)
        await asyncio.sleep(3600 if trouble == "hangs" else 0)
