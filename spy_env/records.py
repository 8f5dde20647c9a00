"""Games as JSON lines: versioned, exact round trip."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from os import SEEK_END
from pathlib import Path
from typing import Any

from spy_env.documents import Document
from spy_env.game import STAGES, Game, RawReply, Rules, Stage
from spy_env.masking import Span

VERSION = 1
BEFORE = {"ballot_order": "seat", "prompts": "v1"}  # rules of records that were written before these rules had a name


def to_json(game: Game) -> str:
    """Write a game as one line of JSON, without the line break."""
    row = {
        "version": VERSION,
        "seed": game.seed,
        "task": game.task,
        "rules": asdict(game.rules),
        "document": asdict(game.document),
        "spy": game.spy,
        "hidden": game.hidden,
        "trained": game.trained,
        "detection_words": game.detection_words,
        **({"shown_characters": game.shown_characters} if game.shown_characters else {}),
        "replies": {
            stage: {seat: reply._asdict() for seat, reply in replies.items()} for stage, replies in game.replies.items()
        },
    }
    return json.dumps(row, ensure_ascii=False)


def from_json(line: str) -> Game:
    """Read the game that ``to_json`` wrote.

    Raises:
        ValueError: the line isn't whole JSON, is no game, or has a version that this package doesn't know.
    """
    row = json.loads(line)
    if not isinstance(row, dict) or "version" not in row:
        raise ValueError("not a game: a record is a JSON object with a version")
    if row["version"] != VERSION:
        raise ValueError(
            f"a game of record version {row['version']!r}; this package reads version {VERSION}. Update spy-env"
        )
    try:
        return _game(row)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a whole game record: {error!r}") from error


def _game(row: dict[str, Any]) -> Game:
    known = {field.name for field in fields(Rules)}
    if unknown := set(row["rules"]) - known:
        raise ValueError(f"unknown rules {sorted(unknown)}; this package knows {sorted(known)}. Update spy-env")
    replies = {stage: {seat: RawReply(**reply) for seat, reply in row["replies"][stage].items()} for stage in STAGES}
    game = Game(
        seed=row["seed"],
        task=row["task"],
        rules=Rules(**{**BEFORE, **row["rules"]}),
        document=Document(**row["document"]),
        spy=row["spy"],
        hidden=tuple(Span(*span) for span in row["hidden"]),
        trained=row["trained"] and Stage(row["trained"]),
        detection_words=row["detection_words"],
        shown_characters=row.get("shown_characters", {}),
        replies=replies,
    )
    if game.spy not in game.players:
        raise ValueError(f"the spy is {game.spy!r}, and the players are {list(game.players)}")
    return game


def write_games(path: Path, games: Iterable[Game]) -> None:
    """Append games to a file, one per line. A last line that was cut is ended first, so that only that game is lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, SEEK_END)
            file.writelines([] if file.read(1) == b"\n" else [b"\n"])
        # UTF-8 can't hold a lone surrogate, and JSON has an escape for it.
        file.writelines(to_json(game).encode("utf-8", "backslashreplace") + b"\n" for game in games)


def read_games(path: Path) -> Iterator[Game]:
    """Read the games of a file. A line that was cut while it was written is lost, with a warning.

    Raises:
        ValueError: a line is whole JSON but no game that this package can read; named by file and line.
    """
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, start=1):
            if not raw.strip():
                continue
            try:
                line = raw.decode("utf-8")
                yield from_json(line)
            except (json.JSONDecodeError, UnicodeDecodeError):
                warnings.warn(
                    f"{path}:{number}: the line is cut or broken; this game is lost, the others are read", stacklevel=2
                )
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
