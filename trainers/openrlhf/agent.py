"""The executor that OpenRLHF loads by this file's path: ``--train.agent_func_path``.

Nothing heavy is imported here that OpenRLHF's engine hasn't loaded.
"""

from __future__ import annotations

from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from trainers.cluster.coordinator_actor import JobCoordinator
from trainers.openrlhf.engine import EngineRollout
from trainers.openrlhf.versions import check_versions


class AgentExecutor(AgentExecutorBase):
    """Plays "Who is the spy?" with the calls of a prompt as players or voters."""

    def __init__(self) -> None:
        """One for each vLLM engine, in the engine's own process.

        Raises:
            ValueError: the stack isn't installed here as it was tried.
        """
        check_versions()
        self.rollout = EngineRollout(JobCoordinator.of_this_job)

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
        """Return one sample of a row. ``prompt`` is the row's text, ``max_length`` prompt and reply in tokens.

        Raises:
            ValueError: the row or OpenRLHF's settings are not those of a prepared run.
            TimeoutError, GamesFailedError: the row could not be played.
        """
        sample = await self.rollout.sample(prompt, sampling_params, max_length, hf_tokenizer, llm_engine)
        return sample | {"prompt": prompt, "label": label, "images": images}
