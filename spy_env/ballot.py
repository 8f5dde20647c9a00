"""The ballot: show performances so that none can pass for another, and read a vote back from a reply.

Every line of a performance is quoted with ``| ``, so nothing a player writes can look like a line of ours.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Sequence

from spy_env.seats import Seat, number_of, player_seats

Vote = str
"""A player's seat, ``ABSTAIN`` or ``UNREADABLE``."""
ABSTAIN: Vote = "abstain"
UNREADABLE: Vote = "unreadable"
NO_ANSWER = "(no answer)"

_QUOTE = "| "
# They can reorder what is seen.
_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HEADING = re.compile(r"Player (\d+):")


def render_ballot(performances: Sequence[tuple[Seat, str]]) -> str:
    """The performances under their players' numbers, each line quoted."""
    return "\n".join(f"Player {number_of(seat)}:\n{_quote(text)}" for seat, text in performances)


def read_ballot(prompt: str) -> list[tuple[Seat, str]]:
    """What ``render_ballot`` wrote, from a prompt that holds it; empty where there is none."""
    found: list[tuple[Seat, list[str]]] = []
    for line, following in zip(lines := prompt.split("\n"), [*lines[1:], ""], strict=True):
        heading = _HEADING.fullmatch(line)
        if heading and following.startswith(_QUOTE):
            found.append((f"player_{heading[1]}", []))
        elif found and line.startswith(_QUOTE):
            found[-1][1].append(line.removeprefix(_QUOTE))
    return [(seat, "\n".join(text)) for seat, text in found]


def _quote(text: str) -> str:
    lines = [printable(line).rstrip() for line in (text.strip() or NO_ANSWER).splitlines()]
    return "\n".join(_QUOTE + line for line in lines if line) or _QUOTE + NO_ANSWER


def printable(line: str) -> str:
    """A line without control characters and without those that reorder what is seen; tabs become spaces."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(" " if c == "\t" else c for c in line if c == "\t" or not _hidden_character(c))


def _hidden_character(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") or character in _BIDI_CONTROLS


_THINK = re.compile(r"<(/?)think>")
_NESTING = 4  # braces within a box; deeper ones hold no vote


def box_pattern(nesting: int) -> re.Pattern[str]:
    """A complete, non-empty box with braces up to ``nesting`` deep, the inner of two.

    Possessive, never read past the next box's start: linear time.
    """
    plain = r"[^{}\\]*+"
    escaped = r"\\(?!boxed\s*+\{)."  # `\{` and `\}` are text, not braces
    content = rf"{plain}(?:{escaped}{plain})*+"
    for _ in range(nesting):
        content = rf"{plain}(?:(?:{escaped}|\{{{content}\}}){plain})*+"
    return re.compile(rf"\\boxed\s*+\{{(?!\s*+\}})({content})\}}", re.DOTALL)


_BOX = box_pattern(_NESTING)
_STYLING = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\s*(?=\{)")
_NUMBERED = re.compile(r"(?:player[\s_\-#]*)?#?0*([0-9]{1,9})\.?", re.IGNORECASE)
_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_BRACES_TO_SPACES = str.maketrans("{}", "  ")
_ABSTENTIONS = frozenset({"n/a", "na", "n.a", "n\\a", "none", "abstain", "notapplicable"})


def after_thinking(reply: str) -> str:
    """A reply without its ``<think>`` parts: what follows the last ``</think>``, up to a ``<think>`` never closed."""
    last_close = reply.rfind("</think>")
    rest = reply[last_close + len("</think>") :] if last_close >= 0 else reply
    return rest.partition("<think>")[0]


def last_box(reply: str, box: re.Pattern[str] = _BOX) -> str | None:
    """The content of a reply's last complete, non-empty ``\\boxed{}`` outside its thinking; None where there is none."""
    text = after_thinking(reply)
    boxes = deque(box.finditer(text, 0, text.rfind("}") + 1), maxlen=1)
    return boxes[0][1].strip() if boxes else None


def parse_vote(reply: str, players: int) -> Vote:
    """Read the last complete, non-empty ``\\boxed{}`` after the last ``</think>``; never raises, linear time.

    Reads ``3``, ``03``, ``Player 3``, ``player_3``, ``\\text{3}`` and full-width digits as ``player_3``; ``N/A`` in its
    spellings and ``none`` abstain. Anything else, and numbers outside 1 to ``players``, is unreadable.
    """
    said = last_box(reply)
    if said is None or len(said) > 200:  # no vote is longer
        return UNREADABLE
    plain = _STYLING.sub(" ", said.translate(_HALF_WIDTH)).translate(_BRACES_TO_SPACES)
    said = " ".join(plain.strip(" $").split())
    if said.casefold().replace(" ", "").rstrip(".") in _ABSTENTIONS:
        return ABSTAIN
    numbered = _NUMBERED.fullmatch(said)
    if not numbered or not 1 <= int(numbered[1]) <= players:
        return UNREADABLE
    return player_seats(players)[int(numbered[1]) - 1]
