"""The ballot: show performances so that none can pass for another, and read a vote back from a reply.

Every line of a performance is quoted with ``| ``, so nothing a player writes can look like a line of ours.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable

from spy_env.seats import player_seats

Vote = str
"""A vote as read: a player's seat, ``ABSTAIN`` or ``UNREADABLE``."""
ABSTAIN: Vote = "abstain"
UNREADABLE: Vote = "unreadable"
NO_ANSWER = "(no answer)"

_QUOTE = "| "
# These characters can reorder the text that a reader sees.
_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HEADING = re.compile(r"Player (\d+):")


def render_ballot(performances: Iterable[str]) -> str:
    """Write the performances under the numbers 1 to n, with every line quoted."""
    return "\n".join(f"Player {number}:\n{_quote(text)}" for number, text in enumerate(performances, start=1))


def read_ballot(prompt: str) -> list[tuple[int, str]]:
    """Read numbers and texts of the ballot that ``render_ballot`` wrote back from a prompt; empty if it holds none."""
    entries: list[tuple[int, list[str]]] = []
    for line, following in zip(lines := prompt.split("\n"), [*lines[1:], ""], strict=True):
        heading = _HEADING.fullmatch(line)
        if heading and following.startswith(_QUOTE):
            entries.append((int(heading[1]), []))
        elif entries and line.startswith(_QUOTE):
            entries[-1][1].append(line.removeprefix(_QUOTE))
    return [(number, "\n".join(text)) for number, text in entries]


def _quote(text: str) -> str:
    lines = [printable(line).rstrip() for line in (text.strip() or NO_ANSWER).splitlines()]
    return "\n".join(_QUOTE + line for line in lines if line) or _QUOTE + NO_ANSWER


def printable(line: str) -> str:
    """Remove control characters, and characters that reorder text, from a line; tabs become spaces."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(" " if c == "\t" else c for c in line if c == "\t" or not _hidden_character(c))


def _hidden_character(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") or character in _BIDI_CONTROLS


_THINK = re.compile(r"<(/?)think>")
_NESTING = 4  # braces within a box; deeper ones hold no vote


def box_pattern(nesting: int) -> re.Pattern[str]:
    """Match a complete, non-empty box with braces up to ``nesting`` deep; of nested boxes the inner one.

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
    """Return the part of a reply after its last ``</think>``, up to a ``<think>`` that is never closed."""
    last_close = reply.rfind("</think>")
    rest = reply[last_close + len("</think>") :] if last_close >= 0 else reply
    return rest.partition("<think>")[0]


def last_box(reply: str, box: re.Pattern[str] = _BOX) -> str | None:
    """Return the content of a reply's last complete, non-empty ``\\boxed{}`` outside its thinking, if there is one."""
    text = after_thinking(reply)
    boxes = deque(box.finditer(text, 0, text.rfind("}") + 1), maxlen=1)
    return boxes[0][1].strip() if boxes else None


def unstyled(content: str) -> str:
    """Strip a box's content of styling commands, braces and dollars; full-width characters become half-width."""
    plain = _STYLING.sub(" ", content.translate(_HALF_WIDTH)).translate(_BRACES_TO_SPACES)
    return " ".join(plain.strip(" $").split())


def parse_vote(reply: str, players: int) -> Vote:
    """Read the last complete, non-empty ``\\boxed{}`` after the last ``</think>``; never raises, linear time.

    Reads ``3``, ``03``, ``Player 3``, ``player_3``, ``\\text{3}`` and full-width digits as ``player_3``; ``N/A`` in its
    spellings and ``none`` abstain. Anything else, and numbers outside 1 to ``players``, is unreadable.
    """
    content = last_box(reply)
    if content is None or len(content) > 200:  # no vote is longer
        return UNREADABLE
    content = unstyled(content)
    if content.casefold().replace(" ", "").rstrip(".") in _ABSTENTIONS:
        return ABSTAIN
    numbered = _NUMBERED.fullmatch(content)
    if not numbered or not 1 <= int(numbered[1]) <= players:
        return UNREADABLE
    return player_seats(players)[int(numbered[1]) - 1]
