"""Games as one page for a browser, which needs no network and runs nothing that a model wrote."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from spy_env.advantages import detection_advantages, performing_advantages
from spy_env.ballot import NO_ANSWER, UNREADABLE
from spy_env.diagnostics.proxies import proxies
from spy_env.game import STAGES, Game, Stage
from spy_env.observations import observe
from spy_env.seats import Seat
from spy_env.viewer.origin import Origin

PREVIEW = 100  # characters of the document in the list; more than fit
Facts = dict[str, Any]

_NO_RUN = "No run is known that trained on this game, so no baselines are: performing advantages can't be told."
_NO_BASELINES = "The run's metrics.jsonl doesn't hold the baselines of this iteration under these reward rules."
_SHUFFLED = "This run deals advantages out to other replies at random (the control); these are the ones before that."
_NORMALISED = "Performing advantages are divided by their standard deviation in this run."


def row_of(number: int, game: Game, origin: Origin) -> Facts:
    """Return a game's row in the list: the values to search, filter and recognise it by."""
    votes = list(game.votes().values())
    return {
        "number": number,
        "seed": game.seed,
        "task": game.task,
        "document": game.document.id,
        "run": origin.run,
        "point": origin.point,
        "stage": game.stage,
        "caught": game.caught if game.stage is Stage.OVER else None,
        "unreadable": votes.count(UNREADABLE),
        "votes": len(votes),
        "preview": " ".join(game.document.text[: 2 * PREVIEW].split())[:PREVIEW],
    }


def facts_of(game: Game, origin: Origin) -> Facts:
    """Return everything that is shown of an opened game."""
    return {
        "spy": game.spy,
        "players": game.players,
        "voters": game.voters,
        "roles": {seat: game.role(seat) for seat in dict.fromkeys([*game.players, *game.voters])},
        "trained": game.trained,
        "rules": _rules_text(game),
        "document": _document_parts(game),
        "performances": _performances(game),
        "votes": _votes(game),
        "outcome": _outcome(game, origin) if game.stage is Stage.OVER else None,
        "told": {stage: _told(game, stage) for stage in STAGES if _reached(game, stage)},
    }


def _rules_text(game: Game) -> str:
    rules = game.rules
    voters = f"{rules.referees} referees vote" if rules.voters == "referees" else f"voters: {rules.voters}"
    share = f"{100 * (rules.mask_fraction or 0):.0f} % hidden ({rules.operator})"
    cut = f", document cut to {game.detection_words} words in vote prompts" if game.detection_words else ""
    order = ", each voter with an order of its own" if rules.ballot_order == "voter" else ""
    return f"{rules.players} players, {voters}{order}, {share}{cut}, prompts {rules.prompts}"


def _document_parts(game: Game) -> list[tuple[str, bool]]:
    """Split the document into parts, each with whether it was hidden from the spy."""
    text, parts, position = game.document.text, [], 0
    for span in game.hidden:
        parts += [(text[position : span.start], False), (text[span.start : span.end], True)]
        position = span.end
    return [part for part in [*parts, (text[position:], False)] if part[0]]


def _performances(game: Game) -> dict[Seat, Facts]:
    replies, measures = game.replies[Stage.PERFORMING], proxies(game)
    return {
        seat: {
            "measures": {name: by_seat[seat] for name, by_seat in measures.items()},
            "text": shown.text or NO_ANSWER,
            "said": replies[seat].prefix + replies[seat].text,
            "unmarked": not shown.marked,
            "truncated": replies[seat].truncated,
            "cut": game.shown_characters.get(seat),
        }
        for seat, shown in game.performances().items()
    }


def _votes(game: Game) -> dict[Seat, Facts]:
    replies = game.replies[Stage.DETECTION]
    return {
        seat: {"vote": vote, "said": replies[seat].prefix + replies[seat].text, "truncated": replies[seat].truncated}
        for seat, vote in game.votes().items()
    }


def _outcome(game: Game, origin: Origin) -> Facts:
    earned, known = game.rewards(origin.rewards), origin.baselines is not None
    performing = performing_advantages(game, origin.rewards, origin.baselines or {}, origin.normalised)
    return {
        "caught": game.caught,
        "received": game.tally().received,
        "performing": earned.performing,
        "detection": earned.detection,
        "performing_advantages": _learners(game, performing, origin) if known else None,
        "detection_advantages": _learners(game, detection_advantages(game, origin.rewards), origin),
        "notes": _notes(game, origin),
    }


def _learners(game: Game, advantages: Mapping[Seat, float], origin: Origin) -> dict[Seat, float]:
    """Drop the seats of players who don't learn."""
    return {seat: value for seat, value in advantages.items() if game.role(seat) not in origin.opponents}


def _notes(game: Game, origin: Origin) -> list[str]:
    """Return the notes that a reader needs to read the advantages right."""
    weight = game.rules.vote_weight
    notes = (
        []
        if weight == 1
        else [f"A referee's vote counts {weight:.3g} (players by referees), so that rewards keep their scale."]
    )
    prices = ", ".join(f"{name} {value:g}" for name, value in asdict(origin.rewards).items())
    notes.append(f"Scored by: {prices}.")
    notes += [f"{role}: played by {name}, who doesn't learn" for role, name in origin.opponents.items()]
    if origin.step is None:
        notes.append(_NO_RUN)
    elif origin.baselines is None:
        notes.append(_NO_BASELINES)
    if origin.step is not None and game.trained:
        notes.append(f"This iteration trains the {game.trained} stage; the other stage's advantages move nothing.")
    notes += [_SHUFFLED] if origin.shuffled else []
    return notes + ([_NORMALISED] if origin.normalised else [])


def _reached(game: Game, stage: Stage) -> bool:
    return stage is Stage.PERFORMING or game.stage is not Stage.PERFORMING


def _told(game: Game, stage: Stage) -> Facts:
    """Return the prompts of a stage, each once, and the number of each seat's prompt."""
    prompts = observe(game, stage)
    texts = list(dict.fromkeys(prompts.values()))
    return {"texts": texts, "of": {seat: texts.index(prompt) for seat, prompt in prompts.items()}}


SCRIPTS = ("store.js", "search.js", "list.js", "elements.js", "game.js", "page.js")  # one after the other, one scope
# Nothing but the page's own script and style runs, nothing is loaded or sent, and no text can become markup.
POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def page_of(games: Iterable[tuple[int, Game, Origin]], reveal: bool = False) -> str:
    """Make the page of numbered games; with ``reveal`` every game shows its spy at once."""
    rows: list[Facts] = []
    held: list[str] = []
    for number, game, origin in games:
        rows.append(row_of(number, game, origin))
        held.append(f'<script type="text/plain" id="packed-{len(held)}">{packed(facts_of(game, origin))}</script>\n')
    script, style = "".join(map(_own, SCRIPTS)), _own("page.css")
    parts = {
        "policy": POLICY.format(script=_sha256(script), style=_sha256(style)),
        "style": style,
        "script": script,
        "list": embedded_json({"reveal": reveal, "rows": rows}),
        "games": "".join(held),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda name: parts[name[1]], _own("page.html"))


def embedded_json(value: Any) -> str:
    """Write JSON for a script element: ASCII, and no ``<`` that could end it or begin a comment."""
    return json.dumps(value, separators=(",", ":")).replace("<", r"\u003c")


def packed(value: Any) -> str:
    """Deflate JSON and write it in base64; a game's prompts repeat its document, so they shrink to almost nothing."""
    # UTF-8 can't hold a lone surrogate, and JSON has an escape for it.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    return base64.b64encode(zlib.compress(text)).decode("ascii")


def unpacked(text: str) -> Any:
    """Undo ``packed``."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def _own(name: str) -> str:
    return (files("spy_env.viewer") / name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
