"""One episode is one game: all perform, then all vote, and each reply's trace is paid what the game pays its seat."""

from __future__ import annotations

import asyncio
from typing import Literal

import verifiers.v1 as vf

from spy_env import PRESETS, Document, Game, RawReply, Rules, Seat, Stage, deal, observe, to_json
from trainers.samples import trained_roles
from trainers.verifiers.taskset import SpyTask

Traces = dict[Seat, vf.Trace]


class SpyEnvConfig(vf.EnvConfig):
    """The rules, and who plays: roles are agents, so each may have a model of its own. None: the task's default."""

    spy: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    civilian: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    referee: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    max_concurrent_agents: int | None = None
    """A stage's seats reply at once; verifiers' own default is one after another."""
    train: Literal["both", "performing", "detection"] = "both"
    """The stages whose replies are trainable. A trainer that alternates runs one environment for each."""
    players: int = 5
    voters: str = "all"
    referees: int = 8
    operator: str = "span"
    mask_fraction: float | None = None
    document_words: int | None = None
    words: int | None = None
    rewards: str = "spyrl"
    """Preset: spyrl or vision_zero."""


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
        said = config
        self._rules = Rules(
            said.players, said.voters, said.referees, said.operator, said.mask_fraction, said.document_words, said.words
        )
        if said.rewards not in PRESETS:
            raise ValueError(f"rewards is {said.rewards!r}; choose one of {sorted(PRESETS)}")

    async def run(self, task: SpyTask, agents: vf.Agents) -> None:
        """Play and pay.

        Raises:
            SeatFailedError: a seat gave no reply.
        """
        data = task.data
        game = deal(Document(data.id or "", data.document), data.game, self._rules, data.seed)
        performances = await self._stage(game, task, agents)
        game = game.with_replies(_replies(performances))
        votes = await self._stage(game, task, agents)
        self._pay(game.with_replies(_replies(votes)), performances, votes)

    async def _stage(self, game: Game, task: SpyTask, agents: vf.Agents) -> Traces:
        prompts = observe(game, game.stage)
        async with asyncio.TaskGroup() as together:
            asked = {
                seat: together.create_task(
                    getattr(agents, game.role(seat)).run(task.with_data(prompt=prompt, document=""))
                )
                for seat, prompt in prompts.items()
            }
        traces = {seat: run.result() for seat, run in asked.items()}
        for seat, trace in traces.items():
            trace.info.update(seat=seat, role=game.role(seat), stage=str(game.stage))
            if not trace.ok:
                raise SeatFailedError(f"game {game.seed}: {seat} in stage {game.stage}: {_why(trace)}")
        return traces

    def _pay(self, game: Game, performances: Traces, votes: Traces) -> None:
        earned = game.rewards(PRESETS[self.config.rewards])
        said = game.votes()
        facts = {"caught": float(game.caught), "readable": float(game.readable)}
        for stage, traces, paid in (
            (Stage.PERFORMING, performances, earned.performing),
            (Stage.DETECTION, votes, earned.detection),
        ):
            trained = trained_roles(stage, game.rules.voters) if self.config.train in ("both", stage) else frozenset()
            for seat, trace in traces.items():
                trace.record_reward(stage, paid[seat])
                trace.record_metrics(facts)
                trace.agent.trainable = trace.agent.trainable and game.role(seat) in trained
                if stage is Stage.DETECTION:
                    trace.record_metric("right", float(said[seat] == game.spy))
        next(iter(performances.values())).info["game"] = to_json(game)  # once an episode, for spyrl replay


def _why(trace: vf.Trace) -> str:
    """What went wrong with a reply; a refused connection has a kind and a status alone."""
    error = trace.last_error
    return f"{error.type} {error.status_code or ''} {error.message}" if error else str(trace.stop_condition)


def _replies(traces: Traces) -> dict[Seat, RawReply]:
    return {seat: RawReply(trace.last_reply, truncated=trace.is_truncated) for seat, trace in traces.items()}
