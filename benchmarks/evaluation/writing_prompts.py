"""WritingPrompts as people wrote it: without the tag of its forum, and with words and signs joined again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

_TAG = re.compile(r"\s*[\[({]\s*([A-Za-z]{2,7})\s*[\])}]\s*[:\-]*\s*")
_TAGS = frozenset({"WP", "SP", "EU", "CW", "TT", "RF", "FF"})  # the forum's kinds of prompts in words
_NO_PROMPTS = frozenset({"IP", "MP", "PI", "PM", "OT", "CC", "MODPOST"})  # images, media, own stories, talk
_JOINED = (
    (re.compile(r"\s*<newline>\s*"), "\n"),
    (re.compile(r"``\s*"), '"'),
    (re.compile(r"\s*''"), '"'),
    (re.compile(r" (n't|'(?:s|re|ve|ll|d|m|S|RE|VE|LL|D|M|em))\b"), r"\1"),
    (re.compile(r"(?<=\w) ?’ ?(?=(?:t|s|re|ve|ll|d|m)\b)"), "’"),
    (re.compile(r"(?<=\w) '(?= |$|[,.!?])"), "'"),  # closes a quotation, or is a plural's
    (re.compile(r"\b(gon|wan) (na)\b", re.IGNORECASE), r"\1\2"),
    (re.compile(r"\b(got) (ta)\b", re.IGNORECASE), r"\1\2"),
    (re.compile(r" +([,.!?;:%)\]}…])"), r"\1"),
    (re.compile(r"([(\[{$#]) +"), r"\1"),
    (re.compile(r"[ \t]{2,}"), " "),
)


def tag_of(prompt: str) -> str:
    """The tag that a prompt begins with, in capitals; empty where there is none."""
    found = _TAG.match(prompt)
    return found[1].upper() if found and found[1].upper() in _TAGS | _NO_PROMPTS else ""


def cleaned(prompt: str) -> str:
    """A prompt without its tags, its words and signs joined again."""
    while tag_of(prompt):
        prompt = prompt[_TAG.match(prompt).end() :]  # type: ignore[union-attr]
    for pattern, joined in _JOINED:
        prompt = pattern.sub(joined, prompt)
    return prompt.strip()


def in_words(rows: Iterable[dict[str, Any]], excluded: Counter[str]) -> list[dict[str, Any]]:
    """Each prompt once, cleaned; what isn't a prompt in words, is empty or is repeated is counted."""
    kept: dict[str, dict[str, Any]] = {}
    for row in rows:
        prompt = cleaned(str(row["prompt"]))
        if (tag := tag_of(str(row["prompt"]))) in _NO_PROMPTS:
            excluded[f"no prompt in words ([ {tag} ])"] += 1
        elif not prompt:
            excluded["no prompt"] += 1
        elif prompt in kept:
            excluded["repeated prompt"] += 1
        else:
            kept[prompt] = {**row, "prompt": prompt}
    return list(kept.values())
