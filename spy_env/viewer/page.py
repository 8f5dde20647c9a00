"""From games to the text of the page. Data is embedded so that nothing in it can end its element or become code.

The list is JSON in which no ``<`` stands; a game is deflated JSON in base64, read only when it is opened or searched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from spy_env.game import Game
from spy_env.viewer.facts import Facts, facts_of, row_of
from spy_env.viewer.origin import Origin

SCRIPTS = ("store.js", "search.js", "list.js", "elements.js", "game.js", "page.js")  # one after the other, one scope
# Beside the page's own script and style nothing runs, loads or is sent, and no text can be made into markup.
POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def page_of(games: Iterable[tuple[int, Game, Origin]], reveal: bool = False) -> str:
    """The whole page of games and their numbers; with ``reveal`` every game tells its spy at once."""
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
    """JSON that can stand in a script element: ASCII, and no ``<`` that could end it or begin a comment."""
    return json.dumps(value, separators=(",", ":")).replace("<", r"\u003c")


def packed(value: Any) -> str:
    """JSON, deflated, in base64: a game's prompts repeat its document, and shrink to almost nothing beside it."""
    # A lone surrogate, which UTF-8 can't hold, becomes the escape that JSON has for it.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    return base64.b64encode(zlib.compress(text)).decode("ascii")


def unpacked(text: str) -> Any:
    """What ``packed`` was given."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def _own(name: str) -> str:
    return (files("spy_env.viewer") / name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
