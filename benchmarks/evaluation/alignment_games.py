"""The games of the alignment study: documents to play on, games that the model plays with itself, games saved by others.

Every reply is kept as it comes, so nothing is generated twice; whole games are saved beside them for ``spyrl replay``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.data_sets import DataSet, Hub, Items, drawn, file_of, in_words, read_set
from benchmarks.evaluation.flags import Run
from benchmarks.evaluation.generations import Ask, Finished, answer_all, content_key
from spy_env import Document, Game, Rules, Stage, load_task, read_games, write_games
from spy_env.documents import PLAYABLE_UNITS, playable_units
from spy_env.records import to_json
from spy_env.tasks import shipped_documents
from spy_env.viewer.origin import games_files
from trainers.engines import Failed, Reply, Request, Sampling
from trainers.prompt_budget import deal_to_fit
from trainers.rollout import SeatPolicies, rollout

GAMES = 100  # per task, as published
# Tokens of a reply; ours: enough for a story of 400 words after some thought, and for a vote with reasons.
NEW_TOKENS = {Stage.PERFORMING: 1024, Stage.DETECTION: 2048}
# A reply has at most an eighth of prompt + reply: five performances and a vote leave a quarter to the document.
SHARE_OF_ROOM = 8
DOCUMENT = ("document", "report", "article", "text")
SUMMARY = {"summary": ("summary", "abstract", "highlights", "target")}
DATA = {
    "summarization": DataSet(
        "govreport", "GovReport", Hub("ccdv/govreport-summarization"), {"document": ("report", *DOCUMENT)}, SUMMARY
    ),
    "creative_writing": DataSet(
        "writingprompts", "WritingPrompts", Hub("euclaise/writingprompts"), {"document": ("prompt", *DOCUMENT)}
    ),
}


class Source(NamedTuple):
    """A document to play on, with the summary that its data set has of it."""

    document: Document
    summary: str = ""


def sources_of(task: str, run: Run, limit: int | None) -> tuple[list[Source], dict[str, int]] | None:
    """Return a task's documents, and how many were left out for which reason; None where ``--data`` has nothing for it.

    A task without a data set of its own here is played on ``TASK.jsonl`` of ``--data``, or on the documents it ships.

    Raises:
        ValueError: the data can't be read, or holds no playable document.
    """
    name = load_task(task).name
    data_set = DATA.get(name) or DataSet(name, name, Hub(""), {"document": DOCUMENT}, SUMMARY)
    if name not in DATA and (run.data is None or file_of(name, run.data) is None):
        return [Source(document) for document in shipped_documents(load_task(task))][:limit], {}
    if (items := read_set(data_set, run.data, None, run.seed)) is None:
        return None
    excluded = Counter(items.excluded)
    rows = _playable(items, name == "creative_writing", excluded)
    if not rows:
        raise ValueError(f"{items.source} holds no playable document ({dict(excluded)}); give longer ones")
    chosen = drawn(rows, limit, run.seed, data_set.name)
    sources = [
        Source(Document(row["id"], _encodable(row["document"])), _encodable(row.get("summary"))) for row in chosen
    ]
    return sources, dict(excluded)


def _playable(items: Items, prompts: bool, excluded: Counter[str]) -> list[dict[str, Any]]:
    """Return the rows whose document a game can be played on; prompts for stories without their tags, each once."""
    for row in items.rows:
        if not isinstance(row["document"], str):
            kind = type(row["document"]).__name__
            raise ValueError(f"{items.source}: the document of {row['id']!r} is {kind}, not text")
    rows = items.rows
    if prompts:
        cleaned = in_words([{**row, "prompt": row["document"]} for row in rows], excluded)
        rows = [{**row, "document": row["prompt"]} for row in cleaned]
    playable = [row for row in rows if playable_units(row["document"]) >= PLAYABLE_UNITS]
    if len(playable) < len(rows):
        excluded["document too short to play"] += len(rows) - len(playable)
    return playable


def _encodable(text: str | None) -> str:
    """Return a text that files can hold: lone surrogates become ``?``."""
    return str(text or "").encode("utf-8", "replace").decode().strip()


def sampling_for(who: Contestant) -> dict[Stage, Sampling]:
    """Sample the games' replies from the model as it is, no longer than leaves room for every prompt."""
    share = who.max_len // SHARE_OF_ROOM if who.max_len else None
    return {
        stage: Sampling(max(1, min(filter(None, (tokens, share, who.max_new_tokens)))))
        for stage, tokens in NEW_TOKENS.items()
    }


def play(
    who: Contestant, task: str, sources: Sequence[Source], count: int, run: Run, folder: Path
) -> tuple[list[Game], int]:
    """Play ``count`` games of a task with the model in all seats, but for those in the folder; also count the failed ones.

    With fewer documents than games, documents come again with another spy and another span.

    Raises:
        ValueError: a document leaves no room for a game.
        UnreachableError: the model's endpoint is down.
    """
    name, sampling = load_task(task).name, sampling_for(who)
    file = folder / "games" / f"{name}.jsonl"
    games = {game.seed: game for game in read_games(file)} if file.exists() else {}
    engine = _KeepingEngine(who, name, Finished(folder / "generations.jsonl"), run.seed)
    policies = SeatPolicies(engine, sampling, who.max_len)
    chosen = [(sources[i % len(sources)].document, i // len(sources)) for i in range(count)]
    documents = {_seed(who, task, sampling, run.seed, document, again): document for document, again in chosen}
    missing = [
        deal_to_fit(document, task, Rules(), seed, None, policies.budget)
        for seed, document in documents.items()
        if seed not in games
    ]
    failed: list[Game] = []
    new = [one.game for one in rollout(missing, policies, lambda game, reason: failed.append(game))]
    write_games(file, new)
    games |= {game.seed: game for game in new}
    return [games[seed] for seed in documents if seed in games], len(failed)


def _seed(
    who: Contestant, task: str, sampling: Mapping[Stage, Sampling], seed: int, document: Document, again: int
) -> str:
    """Name a game by whatever changes it, so that games of other models and settings are never taken for it."""
    played = load_task(task)
    prompts = [played.name, played.perform, played.detect, played.marker, asdict(Rules().for_task(played))]
    settings = {stage.value: asdict(of) for stage, of in sampling.items()}
    return f"{seed}/{content_key(who.fingerprint, who.max_len, prompts, settings, seed, asdict(document), again)[:16]}"


@dataclass(frozen=True, slots=True)
class _KeepingEngine:
    """The model as an engine whose replies are kept on disk as they come; it is loaded when the first is missing.

    A failed request isn't repeated in the same run: the endpoint's client has tried often enough, and where only few
    requests are left, their failures would look like those of an endpoint that is down.
    """

    who: Contestant
    task: str
    finished: Finished
    seed: int
    failed: dict[str, Failed] = field(default_factory=dict)  # by the request's seed

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Return one reply per request; seats with the same prompt draw each their own."""
        untried = [request for request in requests if request.seed not in self.failed]
        asks = [
            Ask(self.task, request.seed, request.prompt, request.sampling, int(content_key(request.seed)[:12], 16))
            for request in untried
        ]
        stage = requests[0].seed.split("/")[-2]  # see trainers.rollout.requests_of
        answers = answer_all(self.who, asks, self.finished, self.seed, f"{self.task}, {stage}")
        replies: dict[str, Reply | Failed] = {}
        for request, answer in zip(untried, answers, strict=True):
            if answer.failed:
                self.failed[request.seed] = Failed(answer.failed)
            replies[request.seed] = Reply(answer.text, truncated=answer.truncated)
        return [self.failed.get(request.seed) or replies[request.seed] for request in requests]

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """Count as the model reads it."""
        return self.who.reader.count_tokens(prompt, prefill)


def read_saved(paths: Sequence[Path], limit: int | None) -> tuple[dict[str, list[Game]], dict[str, int]]:
    """Read saved games that are over, at most ``limit`` of each kind, and count the others by the reason to leave them out.

    A kind is what makes games comparable: task, players and voters.

    Raises:
        ValueError: a file isn't there, or no game is over.
    """
    games: dict[str, list[Game]] = {}
    excluded: Counter[str] = Counter()
    seen: set[str] = set()
    for game in (game for path in paths for file in games_files(path) for game in read_games(file)):
        if game.stage is not Stage.OVER:
            excluded["game not over"] += 1
        elif (record := content_key(to_json(game))) in seen:
            excluded["game saved twice"] += 1
        else:
            seen.add(record)
            games.setdefault(_kind(game), []).append(game)
    if not games:
        named = ", ".join(map(str, paths))
        raise ValueError(f"{named}: no game that is over ({dict(excluded) or 'there are none'}); give other files")
    names = [kind.partition(",")[0] for kind in games]
    if len(set(names)) == len(names):  # one kind of each task: its name says enough
        games = dict(zip(names, games.values(), strict=True))
    if limit and (beyond := sum(len(of_kind[limit:]) for of_kind in games.values())):
        excluded["beyond the limit"] = beyond
    return {name: of_kind[:limit] for name, of_kind in games.items()}, dict(excluded)


def _kind(game: Game) -> str:
    voters = f"{game.rules.referees} referees" if game.rules.voters == "referees" else f"voters: {game.rules.voters}"
    return f"{load_task(game.task).name}, {game.rules.players} players, {voters}"
