"""A frozen detector on a run's own ballots: saved games voted on again by a player that never learned.

Answers are kept in the run's folder, each under a hash of its question, so that a second look asks nothing again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from spy_env import Game, Stage
from spy_env.diagnostics import Lead, detector_share, lead
from trainers.corpus import Say
from trainers.disk import weights_sha256, write_whole
from trainers.engines import Failed, Request, Sampling
from trainers.engines.players import KINDS, SeatPlayer, engine_for, read_player
from trainers.inspection.runs import Run
from trainers.rollout import requests_of

DETECTORS = tuple(kind for kind in KINDS if kind not in ("human", "past"))
CACHE = "revotes.jsonl"
GAMES_AT_A_TIME = 8  # whose answers are kept before the next are asked for; our choice
FEWEST = 2  # early games that a comparison needs, and late ones


@dataclass(frozen=True, slots=True)
class Frozen:
    """A detector that doesn't learn; ``identity`` tells its answers from those of any other."""

    player: SeatPlayer
    template_options: dict[str, Any]
    identity: str
    sampling: Sampling


def revoted_lead(run: Run, text: str, count: int, say: Say = print) -> tuple[Lead | None, list[str]]:
    """Return how far a run's detectors lead the one named by ``text`` on the first and last games, and a list of troubles.

    Raises:
        ValueError: there is no such detector.
    """
    frozen = frozen_detector(text, run)
    games = [game for _, game in run.games_by_step]
    if len(games) > count:
        games = [*games[: count // 2], *games[-(count - count // 2) :]]
    shares, failures = _shares(games, frozen, run.inspection / CACHE, say)
    pairs = [(detector_share(game), share) for game, share in zip(games, shares, strict=True) if share is not None]
    trouble = [f"{len(games) - len(pairs)} game(s) could not be voted on again: {failures[0]}"] if failures else []
    if run.rows and games and (first := run.games_by_step[0][0]) > 1:
        trouble.append(f"the first games that are left are of iteration {first}: earlier ones can't be compared")
    early = sum(share is not None for share in shares[: len(games) // 2])
    late = len(pairs) - early
    if min(early, late) < FEWEST:
        few = f"{early} early and {late} late games were voted on again; a comparison needs {FEWEST} of each"
        return None, [*trouble, few]
    return lead([mine for mine, _ in pairs], [its for _, its in pairs], early), trouble


def frozen_detector(text: str, run: Run) -> Frozen:
    """Return the detector named by ``text`` as in ``spyrl play``; ``initial`` is the run's model before training.

    Raises:
        ValueError: there is no such detector, or the run's model is unknown.
    """
    player = read_player(text, DETECTORS)
    if player.kind == "initial":
        player = SeatPlayer("model", _initial_model(run))
    rollout = run.config.get("config", {}).get("rollout", {})
    # The detector replies under the terms of the run's own detectors.
    stage, defaults = rollout.get("detection", {}), Sampling()
    length = stage.get("max_new_tokens") or rollout.get("max_new_tokens", defaults.max_new_tokens)
    temperature = rollout.get("temperature", defaults.temperature)
    sampling = Sampling(length, temperature, stage.get("prefill", ""), stage.get("stop", ""))
    options = json.loads(rollout.get("chat_template_kwargs", "{}"))
    return Frozen(player, options, f"{_identity(player)} {json.dumps(options)}", sampling)


def _identity(player: SeatPlayer) -> str:
    """Name a folder by its weights: answers stay valid when it moves, and not when its weights change."""
    if player.kind == "model" and Path(player.which).is_dir():
        return f"weights {weights_sha256(Path(player.which))}"
    return f"{player.kind}:{player.which}"


def _initial_model(run: Run) -> str:
    """Return the first of these that is there: the folder trained from, the flag's folder; else a name for the hub."""
    for folder in (run.config.get("model_folder"), run.config.get("model")):
        if folder and Path(folder).is_dir():
            return str(folder)
    name = run.config.get("base_model") or run.settings.get("actor.model_name_or_path")
    if not name:
        raise ValueError(f"the model before training isn't named in {run.folder}; name it: --revote model:FOLDER_OR_ID")
    return str(name)


def _shares(games: Sequence[Game], frozen: Frozen, cache: Path, say: Say) -> tuple[list[float | None], list[str]]:
    """Return each game's share of trained voters that name the spy, None where a reply failed, and the failures."""
    questions = [_requests(game, frozen) for game in games]
    texts = _read(cache)
    failures = _ask(questions, frozen, texts, cache, say)
    shares: list[float | None] = []
    for game, requests in zip(games, questions, strict=True):
        asked = zip(game.trained_voters, requests, strict=True)
        votes = [game.read_vote(voter, texts[key]) for voter, key in asked if key in texts]
        shares.append(votes.count(game.spy) / len(votes) if len(votes) == len(requests) else None)
    return shares, failures


def _requests(game: Game, frozen: Frozen) -> dict[str, Request]:
    """Return the trained voters' requests, in order, by a hash of all that an answer depends on."""
    requests = requests_of(game, Stage.DETECTION, frozen.sampling)
    by_key = {}
    for request in (requests[seat] for seat in game.trained_voters):
        question = json.dumps([frozen.identity, request.prompt, request.seed, asdict(request.sampling)])
        by_key[sha256(question.encode("utf-8", "replace")).hexdigest()] = request
    return by_key


def _ask(
    questions: Sequence[dict[str, Request]], frozen: Frozen, texts: dict[str, str], cache: Path, say: Say
) -> list[str]:
    """Ask for the votes that ``texts`` lacks, a few games at a time, add them to it and to the cache; return failures."""
    failures: list[str] = []
    missing = sum(key not in texts for requests in questions for key in requests)
    if not missing:
        return failures
    say(f"asking for {missing} votes on {len(questions)} games, {sum(map(len, questions)) - missing} are known")
    engine = engine_for(frozen.player, template_options=frozen.template_options)
    cache.parent.mkdir(parents=True, exist_ok=True)
    for begin in range(0, len(questions), GAMES_AT_A_TIME):
        some = questions[begin : begin + GAMES_AT_A_TIME]
        batch = {key: request for requests in some for key, request in requests.items() if key not in texts}
        for key, reply in zip(batch, engine.generate(list(batch.values())) if batch else (), strict=True):
            if isinstance(reply, Failed):
                failures.append(reply.reason)
            else:
                texts[key] = reply.prefix + reply.text
        write_whole(cache, "".join(json.dumps({"key": key, "said": text}) + "\n" for key, text in texts.items()))
    return failures


def _read(cache: Path) -> dict[str, str]:
    """Return earlier answers by their keys, without lines that are cut."""
    texts = {}
    for line in cache.read_bytes().splitlines() if cache.is_file() else ():
        try:
            row = json.loads(line)
            texts[row["key"]] = row["said"]
        except (ValueError, KeyError, TypeError):
            continue
    return texts
