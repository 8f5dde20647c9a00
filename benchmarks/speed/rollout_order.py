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
        """Calls per row that make one game."""
        return self.referees or PLAYERS


SCENARIOS = (
    Scenario("one game, 5 players and 8 referees", 1, 120, 8, 64, 64),
    Scenario("4 games at once, 5 players and 8 referees each", 4, 120, 8, 64, 64),
    Scenario("2 games at once, 5 players who vote, long documents", 2, 2000, 0, 64, 16),
)


def run_of(scenario: Scenario, folder: str, max_len: int) -> RunSettings:
    """Return the settings of a run that trains detection, with all rows in its first iteration."""
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
    """Read the first documents of ``source`` that are long enough; by default the task's own, joined.

    Raises:
        ValueError: too few documents are long enough.
    """
    shipped = load_task(TASK).documents
    if source is None and shipped is not None:
        return list(islice(_joined(read_documents(shipped), scenario.words), scenario.rows))
    long = (document for document in read_documents(source or "") if count_units(document.text) >= scenario.words)
    if len(documents := list(islice(long, scenario.rows))) < scenario.rows:
        raise ValueError(
            f"{source} has {len(documents)} documents of at least {scenario.words} words, and {scenario.name!r} needs "
            f"{scenario.rows}"
        )
    return documents


def _joined(documents: Iterable[Document], words: int) -> Iterator[Document]:
    """Yield documents of at least ``words`` words for ever, each joined from short ones."""
    parts: list[str] = []
    for document in cycle(documents):
        parts.append(document.text)
        if sum(map(count_units, parts)) >= words:
            yield Document(f"from {document.id}", "\n\n".join(parts))
            parts = []


T = TypeVar("T")
WAYS = ("tables", "waves", "released")


class Generated(NamedTuple):
    """A finished request: its prompt, the prompt tokens in the cache, the length of the reply."""

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
    """A game's prompts in tokens, by stage and seat."""

    game: Game
    prompts: Mapping[Stage, Mapping[Seat, tuple[int, ...]]]

    @property
    def every_prompt(self) -> list[tuple[int, ...]]:
        """The prompts of all requests."""
        return [ids for by_seat in self.prompts.values() for ids in by_seat.values()]


Generate = Callable[[Stage, tuple[int, ...]], Awaitable[Any]]


async def waves(games: Sequence[Asked], generate: Generate) -> None:
    """Ask for all performances of all games at once, then for all votes."""
    for stage in STAGES:
        await asyncio.gather(*(generate(stage, ids) for one in games for ids in one.prompts[stage].values()))


async def released(games: Sequence[Asked], generate: Generate) -> None:
    """Ask in each game for the civilians together, then the spy, then one voter after another (as the released code does)."""
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
    """The coordinator of a run, in this process, and the games of its rows."""

    def __init__(self, run: RunSettings) -> None:
        """Begin a run."""
        self._coordinator = Coordinator(run)
        self.games: list[Game] = []

    async def begin(self, seed: str) -> Assigned:
        """Begin a row."""
        return self._coordinator.begin(seed, "0")

    async def finish(self, seed: str, games: Sequence[Game], samples: Sequence[Sample]) -> None:
        """Keep a row's games."""
        self.games += games
        self._coordinator.finish(seed, "0", games, samples)

    async def give_up(self, seed: str) -> None:
        """Do nothing: the error is raised by the calls."""

    async def evaluated(self, seed: str, games: Sequence[Game]) -> None:
        """Do nothing: there are no evaluation rows."""


async def at_tables(
    scenario: Scenario, documents: Sequence[Document], engine: Engine, tokenizer: Any, max_len: int
) -> list[Game]:
    """Play as OpenRLHF's executor does, all calls of all rows at once. The rollout is new, since an old one has encoded prompts."""
    with tempfile.TemporaryDirectory() as folder:
        run = run_of(scenario, folder, max_len)
        coordinator, params = CoordinatorHere(run), engine.params()

        async def coordinator_of(_: RunSettings) -> CoordinatorHere:
            return coordinator

        rollout = EngineRollout(coordinator_of)
        rows = [to_json(PromptRow(document, str(i), TRAIN, run)) for i, document in enumerate(documents)]
        calls = [row for row in rows for _ in range(scenario.samples)]
        await asyncio.gather(*(rollout.sample(row, params, max_len, tokenizer, engine) for row in calls))
        return coordinator.games


def asked_in(game: Game, encoder: Encoder, sampling: Mapping[Stage, Sampling]) -> Asked:
    """Return the prompts of a finished game."""
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
    """A round of one way: seconds, CPU seconds, and the finished requests."""

    seconds: float
    cpu_seconds: float
    generated: Sequence[Generated]


async def take_turns(
    scenario: Scenario, documents: Sequence[Document], engine: Engine, tokenizer: Any, max_len: int, rounds: int
) -> tuple[dict[str, list[Round]], list[Asked]]:
    """Run every way in turn, ``rounds`` times; a round repeats the requests of its own games.

    Raises:
        RuntimeError: a way made other requests, so that times can't be compared.
    """
    rounds_of: dict[str, list[Round]] = {way: [] for way in WAYS}
    sampling = run_of(scenario, "", max_len).sampling

    async def generate(stage: Stage, ids: tuple[int, ...]) -> None:
        await engine.generate(list(ids), engine.params(sampling[stage].max_new_tokens))

    async def timed(way: str, run: Awaitable[T]) -> T:
        await engine.forget()
        cpu, begun = engine.cpu_seconds(), time.perf_counter()
        result = await run
        rounds_of[way].append(Round(time.perf_counter() - begun, engine.cpu_seconds() - cpu, engine.generated))
        return result

    games: list[Asked] = []
    for _ in range(rounds):
        played = await timed("tables", at_tables(scenario, documents, engine, tokenizer, max_len))
        encoder = Encoder(tokenizer)
        games = [asked_in(game, encoder, sampling) for game in played]
        for way, replay in REPLAYS.items():
            await timed(way, replay(games, generate))
        requests = sorted(ids for one in games for ids in one.every_prompt)
        for way in WAYS:
            if sorted(one.prompt_ids for one in rounds_of[way][-1].generated) != requests:
                raise RuntimeError(f"{way} made other requests than the games")
    return rounds_of, games
