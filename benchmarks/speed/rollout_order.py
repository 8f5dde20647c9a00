"""The same games generated in three orders: as OpenRLHF's calls meet, and replayed in two others."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, NamedTuple, Protocol, TypeVar

from spy_env import STAGES, Document, Game, Seat, Stage, load_task, read_documents
from spy_env.masking import count_units
from trainers.cluster.coordinator import Assigned, Coordinator
from trainers.cluster.prompt_rows import TRAIN, PromptRow, RunSettings, to_json
from trainers.config import Algo, GameConfig
from trainers.engines import Sampling
from trainers.engines.encoder import Encoder
from trainers.openrlhf.engine import EngineRollout
from trainers.rollout import requests_of
from trainers.samples import Sample

PLAYERS = 5
TASK = "summarization"


@dataclass(frozen=True, slots=True)
class Scenario:
    """``rows`` documents of ``words`` words, on each one game at the same time. Replies have fixed lengths, in tokens."""

    name: str
    rows: int
    words: int
    referees: int  # 0: the players vote
    performance: int
    vote: int

    @property
    def samples(self) -> int:
        """Calls for a row, so that one game comes of them."""
        return self.referees or PLAYERS


SCENARIOS = (
    Scenario("one game, 5 players and 8 referees", 1, 120, 8, 64, 64),
    Scenario("4 games at once, 5 players and 8 referees each", 4, 120, 8, 64, 64),
    Scenario("2 games at once, 5 players who vote, long documents", 2, 2000, 0, 64, 16),
)


def run_of(scenario: Scenario, folder: str, max_len: int) -> RunSettings:
    """A run that trains detection; its first iteration has all rows."""
    game = GameConfig(
        task=TASK,
        players=PLAYERS,
        voters="referees" if scenario.referees else "all",
        document_words=scenario.words,
    )
    return RunSettings(
        folder=folder,
        checkpoints=f"{folder}/checkpoints",
        resume=False,
        task=game.task,
        rules=game.rules,
        start=Algo(schedule="detection").start(game.reward_rules, 0),
        sampling={Stage.PERFORMING: Sampling(scenario.performance), Stage.DETECTION: Sampling(scenario.vote)},
        template_options={},
        max_len=max_len,
        batch_size=scenario.rows,
        samples=scenario.samples,
        eval_rows=0,
        eval_samples=0,
        seed=0,
        deadline_s=3600.0,
    )


def documents_of(source: str | None, scenario: Scenario) -> list[Document]:
    """The first documents of ``source`` that are long enough; without one, the task's own put together.

    Raises:
        ValueError: there are too few such documents.
    """
    shipped = load_task(TASK).documents
    if source is None and shipped is not None:
        return list(islice(_joined(read_documents(shipped), scenario.words), scenario.rows))
    long = (document for document in read_documents(source or "") if count_units(document.text) >= scenario.words)
    if len(found := list(islice(long, scenario.rows))) < scenario.rows:
        raise ValueError(
            f"{source} has {len(found)} documents of at least {scenario.words} words, and {scenario.name!r} needs "
            f"{scenario.rows}"
        )
    return found


def _joined(documents: Iterable[Document], words: int) -> Iterator[Document]:
    """Documents of at least ``words`` words without end, of short ones in turn."""
    parts: list[str] = []
    for document in cycle(documents):
        parts.append(document.text)
        if sum(map(count_units, parts)) >= words:
            yield Document(f"from {document.id}", "\n\n".join(parts))
            parts = []


T = TypeVar("T")
WAYS = ("tables", "waves", "released")


class Generated(NamedTuple):
    """A finished request: its prompt, how many of the prompt's tokens the cache held, how long its reply was."""

    prompt_ids: tuple[int, ...]
    cached: int
    length: int

    @property
    def prefilled(self) -> int:
        """Tokens of the prompt that were computed."""
        return len(self.prompt_ids) - self.cached


class Engine(Protocol):
    """OpenRLHF's engine as an executor sees it, which also counts; see ``rollout_engine``."""

    generated: list[Generated]

    def params(self, length: int = 1) -> Any: ...

    async def generate(self, prompt_token_ids: list[int], sampling_params: Any) -> Any: ...

    async def forget(self) -> None: ...

    def cpu_seconds(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What a game asked of the engine, by stage and seat: prompts in tokens."""

    game: Game
    prompts: Mapping[Stage, Mapping[Seat, tuple[int, ...]]]

    @property
    def every_prompt(self) -> list[tuple[int, ...]]:
        """One for each request."""
        return [ids for by_seat in self.prompts.values() for ids in by_seat.values()]


Generate = Callable[[Stage, tuple[int, ...]], Awaitable[Any]]


async def waves(games: Sequence[Asked], generate: Generate) -> None:
    """All performances of all games at once, then all votes."""
    for stage in STAGES:
        await asyncio.gather(*(generate(stage, ids) for one in games for ids in one.prompts[stage].values()))


async def released(games: Sequence[Asked], generate: Generate) -> None:
    """In each game the civilians together, then the spy, then one voter after another; games don't wait for each other."""
    await asyncio.gather(*(_released(one, generate) for one in games))


async def _released(one: Asked, generate: Generate) -> None:
    performing, detection = (one.prompts[stage] for stage in STAGES)
    civilians = [ids for seat, ids in performing.items() if seat != one.game.spy]
    await asyncio.gather(*(generate(Stage.PERFORMING, ids) for ids in civilians))
    await generate(Stage.PERFORMING, performing[one.game.spy])
    for ids in detection.values():
        await generate(Stage.DETECTION, ids)


REPLAYS = {"waves": waves, "released": released}


class CoordinatorHere:
    """The coordinator of a run in this process, and the games that it was given."""

    def __init__(self, run: RunSettings) -> None:
        """Begin the run."""
        self._coordinator = Coordinator(run)
        self.games: list[Game] = []

    async def begin(self, seed: str) -> Assigned:
        """Count a row."""
        return self._coordinator.begin(seed, "0")

    async def finish(self, seed: str, games: Sequence[Game], samples: Sequence[Sample]) -> None:
        """Take a row's games."""
        self.games += games
        self._coordinator.finish(seed, "0", games, samples)

    async def give_up(self, seed: str) -> None:
        """A row failed; the error is on its way."""

    async def evaluated(self, seed: str, games: Sequence[Game]) -> None:
        """There are no evaluation rows."""


async def at_tables(
    scenario: Scenario, documents: Sequence[Document], engine: Engine, tokenizer: Any, max_len: int
) -> list[Game]:
    """Play as OpenRLHF's executor does, all calls of all rows at once. A new rollout: the last has its prompts in memory."""
    with tempfile.TemporaryDirectory() as folder:
        run = run_of(scenario, folder, max_len)
        coordinator, params = CoordinatorHere(run), engine.params()

        async def found(_: RunSettings) -> CoordinatorHere:
            return coordinator

        rollout = EngineRollout(found)
        rows = [to_json(PromptRow(document, str(i), TRAIN, run)) for i, document in enumerate(documents)]
        calls = [row for row in rows for _ in range(scenario.samples)]
        await asyncio.gather(*(rollout.sample(row, params, max_len, tokenizer, engine) for row in calls))
        return coordinator.games


def asked_in(game: Game, encoder: Encoder, sampling: Mapping[Stage, Sampling]) -> Asked:
    """What a game that is over asked of the engine."""
    return Asked(
        game,
        {
            stage: {
                seat: encoder.encode(request.prompt, request.sampling.prefill)
                for seat, request in requests_of(game, stage, sampling[stage]).items()
            }
            for stage in STAGES
        },
    )


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a way: seconds, CPU seconds, and what was generated."""

    seconds: float
    cpu_seconds: float
    generated: Sequence[Generated]


async def take_turns(
    scenario: Scenario, documents: Sequence[Document], engine: Engine, tokenizer: Any, max_len: int, rounds: int
) -> tuple[dict[str, list[Round]], list[Asked]]:
    """Every way in turn, ``rounds`` times; a round repeats the requests of its own games.

    Raises:
        RuntimeError: the ways asked for different things, so that there is nothing to compare.
    """
    found: dict[str, list[Round]] = {way: [] for way in WAYS}
    sampling = run_of(scenario, "", max_len).sampling

    async def generate(stage: Stage, ids: tuple[int, ...]) -> None:
        await engine.generate(list(ids), engine.params(sampling[stage].max_new_tokens))

    async def timed(way: str, run: Awaitable[T]) -> T:
        await engine.forget()
        cpu, begun = engine.cpu_seconds(), time.perf_counter()
        result = await run
        found[way].append(Round(time.perf_counter() - begun, engine.cpu_seconds() - cpu, engine.generated))
        return result

    games: list[Asked] = []
    for _ in range(rounds):
        played = await timed("tables", at_tables(scenario, documents, engine, tokenizer, max_len))
        encoder = Encoder(tokenizer)
        games = [asked_in(game, encoder, sampling) for game in played]
        for way, replay in REPLAYS.items():
            await timed(way, replay(games, generate))
        wanted = sorted(ids for one in games for ids in one.every_prompt)
        for way in WAYS:
            if sorted(one.prompt_ids for one in found[way][-1].generated) != wanted:
                raise RuntimeError(f"{way} did not ask for what the games ask for")
    return found, games
