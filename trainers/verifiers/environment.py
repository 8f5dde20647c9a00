"""A task is a deal, an episode is one game of it, and each reply is a trace with the reward that the game gives its seat."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from typing import Any, Literal, get_type_hints

import verifiers.v1 as vf
from openai import AsyncOpenAI
from pydantic import Field, create_model

from spy_env import (
    PRESETS,
    Document,
    Game,
    RawReply,
    Rules,
    Seat,
    Stage,
    deal,
    load_task,
    observe,
    read_documents,
    shipped_documents,
    to_json,
)
from trainers.samples import trained_roles

Traces = dict[Seat, vf.Trace]
RULES: dict[str, Any] = {field.name: (get_type_hints(Rules)[field.name], field.default) for field in fields(Rules)}
RulesConfig: Any = create_model("RulesConfig", __base__=vf.EnvConfig, **RULES)  # each rule is a flag of vf-eval


class SpyData(vf.TaskData):
    """A document, and the seed that deals a game on it: every rollout of a task has the same spy and hidden span."""

    game: str
    document: str  # empty in the traces of seats, whose prompts and record hold what was played
    seed: str


class SpyTask(vf.Task[SpyData]):
    """A task without a score of its own: a reply's reward depends on the other seats, so the environment pays."""

    @property
    def key(self) -> str:
        """The deal, and the prompt of one seat of it."""
        return f"{self.data.seed}/{self.hash[:16]}"


class SpyTasksetConfig(vf.TasksetConfig):
    """The documents that are played."""

    game: str = Field("summarization", description="the players' work: a shipped task, my_task.py, or module:TASK")
    documents: str | None = Field(
        None, description=".jsonl, a folder of text files, or id:config:split:column; default: the task's own"
    )
    input_key: str = Field("text", description="the field of a JSONL row that holds the text")
    seed: int = Field(0, description="of the deals")
    max_documents: int = Field(10_000, ge=1, description="use only the first documents")


class SpyTaskset(vf.Taskset[SpyTask, SpyTasksetConfig]):
    """One task per document."""

    def load(self) -> Iterator[SpyTask]:
        """Yield a task for each playable document, in order.

        Raises:
            ValueError: no such game, or the documents can't be read.
        """
        config = self.config
        task = load_task(config.game)
        documents = read_documents(config.documents, config.input_key) if config.documents else shipped_documents(task)
        for document in islice(documents, config.max_documents):
            name, seed = document.id, f"{config.seed}/{document.id}"
            data = SpyData(id=name, name=name, game=config.game, document=document.text, seed=seed)
            yield SpyTask(data, config.task)


class ReplyHarness(vf.Harness[vf.HarnessConfig]):
    """One chat completion per reply, without tools, in this process: a process for each of a game's replies is slow.

    It goes through verifiers' interception, which samples, retries and records.
    """

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
        """Ask once. A refusal of the interception raises, and verifiers records it on the trace."""
        system, prompt = self.resolve_text_prompt(data)
        messages: list[Any] = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0, timeout=None) as client:
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class SpyEnvConfig(RulesConfig):
    """The rules, and the roles' agents, each of which may have a model of its own."""

    spy: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    civilian: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    referee: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    max_concurrent_agents: int | None = Field(None, description="None: a stage's seats all reply at once")
    train: Literal["both", "performing", "detection"] = Field("both", description="stages with trainable replies")
    rewards: str = Field("spyrl", description=f"preset: {' or '.join(PRESETS)}")


class SeatFailedError(RuntimeError):
    """The infrastructure gave no reply of a seat, so the episode fails and nothing is paid."""


class SpyEnv(vf.Env[SpyEnvConfig]):
    """The game "Who is the spy?"."""

    def __init__(self, config: SpyEnvConfig) -> None:
        """Check the rules before any rollout.

        Raises:
            ValueError: rules that no game can have, or no such preset.
        """
        super().__init__(config)
        self._rules = Rules(**config.model_dump(include=RULES.keys()))
        if config.rewards not in PRESETS:
            raise ValueError(f"rewards is {config.rewards!r}; choose one of {sorted(PRESETS)}")

    async def run(self, task: SpyTask, agents: vf.Agents) -> None:
        """Play and pay.

        Raises:
            SeatFailedError: a seat gave no reply.
        """
        data = task.data
        game = deal(Document(data.id or "", data.document), data.game, self._rules, data.seed)
        performances = await self._play_stage(game, task, agents)
        game = game.with_replies(_replies(performances))
        votes = await self._play_stage(game, task, agents)
        self._pay(game.with_replies(_replies(votes)), performances, votes)

    async def _play_stage(self, game: Game, task: SpyTask, agents: vf.Agents) -> Traces:
        # All seats reply at once; an agent answers a copy of the task with its seat's prompt.
        async with asyncio.TaskGroup() as group:
            runs = {
                seat: group.create_task(
                    getattr(agents, game.role(seat)).run(task.with_data(prompt=prompt, document=""))
                )
                for seat, prompt in observe(game, game.stage).items()
            }
        # Every trace is labelled; one without a reply fails the episode.
        traces = {seat: run.result() for seat, run in runs.items()}
        for seat, trace in traces.items():
            trace.info.update(seat=seat, role=game.role(seat), stage=str(game.stage))
            if not trace.ok:
                raise SeatFailedError(f"game {game.seed}: {seat} in stage {game.stage}: {_reason(trace)}")
        return traces

    def _pay(self, game: Game, performances: Traces, votes: Traces) -> None:
        rewards = game.rewards(PRESETS[self.config.rewards])
        for stage, traces, by_seat in (
            (Stage.PERFORMING, performances, rewards.performing),
            (Stage.DETECTION, votes, rewards.detection),
        ):
            trained = trained_roles(stage, game.rules.voters) if self.config.train in ("both", stage) else ()
            for seat, trace in traces.items():
                trace.record_reward(stage, by_seat[seat])
                trace.record_metrics({"caught": float(game.caught), "readable": float(game.readable)})
                trace.agent.trainable = trace.agent.trainable and game.role(seat) in trained
        for seat, vote in game.votes().items():
            votes[seat].record_metric("right", float(vote == game.spy))
        performances["player_1"].info["game"] = to_json(game)  # once per episode, for spyrl replay


def _reason(trace: vf.Trace) -> str:
    """Return why a trace has no reply; a refused connection has a type and a status alone."""
    error = trace.last_error
    return f"{error.type} {error.status_code or ''} {error.message}" if error else str(trace.stop_condition)


def _replies(traces: Traces) -> dict[Seat, RawReply]:
    return {seat: RawReply(trace.last_reply, truncated=trace.is_truncated) for seat, trace in traces.items()}
