"""A frozen detector on a run's own ballots: the detection stage of saved games, played again by one that never learned.

Answers are kept in the run's folder under what was asked of whom, so that to look again asks nothing again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from spy_env import Game, Stage, parse_vote
from spy_env.diagnostics import Lead, detector_share, lead
from trainers import disk
from trainers.config import StageSampling, sampling_by_stage, template_options
from trainers.corpus import Say
from trainers.engines import Engine, Failed, Reply, Request, Sampling
from trainers.engines.players import KINDS, SeatPlayer, engine_for, read_player
from trainers.first_run.downloads import SMALL_MODEL, weights_sha256
from trainers.inspection.runs import Run
from trainers.rollout import requests_of
from trainers.settings import from_dict

DETECTORS = tuple(kind for kind in KINDS if kind not in ("human", "past"))
CACHE = "revotes.jsonl"
GAMES_AT_A_TIME = 8  # whose answers are kept before the next are asked for
FEWEST = 2  # early games that a comparison needs, and late ones


@dataclass(frozen=True, slots=True)
class Frozen:
    """A detector: how its engine is made, once something must be asked, and what tells it from any other."""

    make: Callable[[], Engine]
    identity: str
    sampling: Sampling


def revoted_lead(run: Run, text: str, count: int, say: Say = print) -> tuple[Lead | None, list[str]]:
    """How far a run's detectors are ahead of the one that ``text`` names, on the first and last games; and what is amiss.

    Raises:
        ValueError: there is no such detector.
    """
    frozen = frozen_detector(text, run)
    games = [game for _, game in run.games_by_step]
    if len(games) > count:
        games = [*games[: count // 2], *games[-(count - count // 2) :]]
    shares, failed = _shares(games, frozen, run.inspection / CACHE, say)
    pairs = [(detector_share(game), share) for game, share in zip(games, shares, strict=True) if share is not None]
    trouble = [f"{len(games) - len(pairs)} game(s) could not be voted on again: {failed[0]}"] if failed else []
    if run.rows and games and (first := run.games_by_step[0][0]) > 1:
        trouble.append(f"the first games that are left are of iteration {first}: what came before can't be compared")
    early = sum(share is not None for share in shares[: len(games) // 2])
    if min(early, len(pairs) - early) < FEWEST:
        told = f"{early} early and {len(pairs) - early} late games were voted on again; a comparison needs {FEWEST} of each"
        return None, [*trouble, told]
    return lead([own for own, _ in pairs], [share for _, share in pairs], early), trouble


def frozen_detector(text: str, run: Run) -> Frozen:
    """The detector that ``text`` names, in the syntax of ``spyrl play``, or ``initial``, the run's model before training.

    Raises:
        ValueError: it names none, or the run doesn't tell its model.
    """
    player, settings = read_player(text, DETECTORS), run.config.get("config", {})
    if player.kind == "initial":
        player = SeatPlayer("model", _initial_model(run))
    rollout = settings.get("rollout", {})
    options = template_options(rollout.get("chat_template_kwargs", "{}"))

    def make() -> Engine:
        return engine_for(player, template_options=options)

    return Frozen(make, f"{_identity(player)} {json.dumps(options)}", _sampling(rollout))


def _initial_model(run: Run) -> str:
    told = [run.config.get("model_folder"), run.config.get("model"), run.config.get("base_model")]
    for name in told:
        if isinstance(name, str) and name and (Path(name).is_dir() or name == told[-1]):
            return name
    asked = run.config.get("config", {}).get("actor", {}).get("model_name_or_path")
    if not asked:
        raise ValueError(f"{run.folder} doesn't tell its model before training; name it: --revote model:FOLDER_OR_ID")
    return str(asked)


def _identity(player: SeatPlayer) -> str:
    """A model's folder by its weights: what was asked of them stands when the folder moves, and not when they change."""
    if player.kind == "model" and player.which != SMALL_MODEL and Path(player.which).is_dir():
        return f"weights {weights_sha256(Path(player.which))}"
    return f"{player.kind}:{player.which}"


def _sampling(rollout: dict[str, Any]) -> Sampling:
    """As the run's own detectors replied."""
    defaults = Sampling()
    by_stage = (
        from_dict(StageSampling, rollout.get(str(stage), {}), "config.json") for stage in Stage if stage != Stage.OVER
    )
    performing, detection = by_stage
    length = rollout.get("max_new_tokens", defaults.max_new_tokens)
    temperature = rollout.get("temperature", defaults.temperature)
    return sampling_by_stage(length, temperature, performing, detection)[Stage.DETECTION]


def _shares(games: Sequence[Game], frozen: Frozen, cache: Path, say: Say) -> tuple[list[float | None], list[str]]:
    """Of each game the share of its trained voters' seats that name the spy when the detector replies; None where it failed."""
    known = _read(cache)
    asked = [_requests(game, frozen) for game in games]
    missing = sum(key not in known for requests in asked for key in requests)
    failed: list[str] = []
    if missing:
        _mend(cache)
        say(f"asking for {missing} votes on {len(games)} games, {sum(map(len, asked)) - missing} are known")
        for key, reply in _answers(frozen.make(), asked, known):
            if isinstance(reply, Failed):
                failed.append(reply.reason)
            else:
                known[key] = reply.prefix + reply.text
                disk.append(cache, json.dumps({"key": key, "said": known[key]}) + "\n")
    shares: list[float | None] = []
    for game, requests in zip(games, asked, strict=True):
        said = [known.get(key) for key in requests]
        votes = [parse_vote(one, game.rules.players) for one in said if one is not None]
        shares.append(sum(vote == game.spy for vote in votes) / len(said) if len(votes) == len(said) else None)
    return shares, failed


def _requests(game: Game, frozen: Frozen) -> dict[str, Request]:
    """What the trained voters are asked, by what tells the question from every other."""
    asked = requests_of(game, Stage.DETECTION, frozen.sampling)
    requests = [asked[seat] for seat in game.trained_voters]
    return {
        sha256(
            json.dumps([frozen.identity, one.prompt, one.seed, asdict(one.sampling)]).encode("utf-8", "replace")
        ).hexdigest(): one
        for one in requests
    }


def _answers(
    engine: Engine, asked: Sequence[dict[str, Request]], known: dict[str, str]
) -> Iterator[tuple[str, Reply | Failed]]:
    for begin in range(0, len(asked), GAMES_AT_A_TIME):
        batch = {
            key: one
            for requests in asked[begin : begin + GAMES_AT_A_TIME]
            for key, one in requests.items()
            if key not in known
        }
        if batch:
            yield from zip(batch, engine.generate(list(batch.values())), strict=True)


def _read(cache: Path) -> dict[str, str]:
    """What was answered before; lines that a kill cut are asked again."""
    known = {}
    for line in cache.read_bytes().splitlines() if cache.is_file() else []:
        try:
            row = json.loads(line)
            known[row["key"]] = row["said"]
        except (ValueError, KeyError, TypeError):
            continue
    return known


def _mend(cache: Path) -> None:
    """End a last line that a kill cut, so that it is lost alone."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    if cache.is_file() and (held := cache.read_bytes()) and not held.endswith(b"\n"):
        disk.append(cache, "\n")
