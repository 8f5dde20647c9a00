"""Rows of a run of OpenRLHF for measuring how their games are played, and the documents that they are played on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice

from spy_env import Document, Stage, load_task, read_documents
from spy_env.masking import count_units
from trainers.cluster.invitation import RunSettings
from trainers.engines import Sampling
from trainers.game_config import GameConfig, rules_of, start_curriculum

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
        schedule="detection",
    )
    return RunSettings(
        folder=folder,
        checkpoints=f"{folder}/checkpoints",
        resume=False,
        task=game.task,
        rules=rules_of(game),
        start=start_curriculum(game, 0),
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
