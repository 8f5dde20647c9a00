"""The executor that OpenRLHF loads by this file's path: ``--train.agent_func_path``.

Every call is a seat at a table (see ``host``). Nothing heavy is imported here that OpenRLHF's engine hasn't loaded.
"""

from __future__ import annotations

from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from trainers.cluster.coordinator_actor import JobDirector
from trainers.openrlhf.host import Host
from trainers.openrlhf.versions import check_versions


class AgentExecutor(AgentExecutorBase):
    """Plays "Who is the spy?" with the calls of a prompt as players or voters."""

    def __init__(self) -> None:
        """One for each vLLM engine, in the engine's own process.

        Raises:
            ValueError: the stack isn't installed here as it was tried.
        """
        check_versions()
        self._host = Host(JobDirector.of_this_job)

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
        """One sample of a row. ``prompt`` is an invitation, ``max_length`` prompt and reply in tokens.

        Raises:
            ValueError: the row or OpenRLHF's settings are not those of a prepared run.
            TimeoutError, GamesFailedError: the row could not be played.
        """
        answer = await self._host.sample(prompt, sampling_params, max_length, hf_tokenizer, llm_engine)
        return answer | {"prompt": prompt, "label": label, "images": images}
