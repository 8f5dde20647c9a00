"""Cut a document from its middle so that its prompt fits: instructions stand before and after it and are never cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from spy_env.masking import units

MARK = "\n[... the middle is left out here ...]\n"
CHINESE_MARK = "\n[……此处略去中间部分……]\n"
CLOSE = 0.97  # share of the room from which on we stop looking for a longer document that fits; our choice
INTERPOLATIONS, HALVINGS = 4, 12  # prompts encoded at most, after the first; our choice, two are common
WINDOW = 200  # characters around a cut in which a border of units is looked for; a longer word is cut within


class Fitted(NamedTuple):
    """A prompt that fits, and whether its document was shortened for it."""

    prompt: str
    shortened: bool


def fitted(
    document: str,
    prompt_of: Callable[[str], str],
    count: Callable[[str], int],
    room: int | None,
    mark: str = MARK,
) -> Fitted:
    """The prompt on a document, shortened where ``count`` says that it has more than ``room`` tokens (None: no limit).

    Half of the characters that are kept are at each end, up to borders of words.

    Raises:
        ValueError: not even the prompt without a document fits.
    """
    whole = prompt_of(document)
    if room is None or (tokens := count(whole)) <= room:
        return Fitted(whole, False)
    bare = prompt_of(mark)
    if (least := count(bare)) > room:
        raise ValueError(
            f"a prompt has {least} tokens without its document, and {room} are free for it; give a larger --max_len, "
            "or a model with a longer context"
        )
    return Fitted(_longest(document, prompt_of, count, room, mark, (least, bare), tokens), True)


def _longest(
    document: str,
    prompt_of: Callable[[str], str],
    count: Callable[[str], int],
    room: int,
    mark: str,
    fits: tuple[int, str],
    too_many: int,
) -> str:
    """The prompt nearest to ``room`` from below that few encodings find, between a length that fits and one that doesn't."""
    kept, (tokens, prompt) = 0, fits
    too_long = len(document)
    for encoded in range(INTERPOLATIONS + HALVINGS):
        if tokens >= CLOSE * room or too_long - kept <= 1:
            break
        share = (room * (1 + CLOSE) / 2 - tokens) / (too_many - tokens) if encoded < INTERPOLATIONS else 0.5
        tried = min(max(kept + int((too_long - kept) * share), kept + 1), too_long - 1)
        shorter = prompt_of(without_middle(document, tried, mark))
        if (counted := count(shorter)) <= room:
            kept, tokens, prompt = tried, counted, shorter
        else:
            too_long, too_many = tried, counted
    return prompt


def without_middle(text: str, characters: int, mark: str = MARK) -> str:
    """At most ``characters`` of a text, half of them from each end, with ``mark`` where the middle was."""
    head = _border(text, characters - characters // 2, up=False)
    tail = _border(text, len(text) - characters // 2, up=True)
    return text[:head].rstrip() + mark + text[tail:].lstrip()


def _border(text: str, place: int, up: bool) -> int:
    """The beginning of a unit at a place, or the nearest below or above it."""
    begin = max(0, place - WINDOW)
    starts = [begin + unit.start for unit in units(text[begin : place + WINDOW])]
    if begin:
        starts = starts[1:]  # the first may be the rest of a word
    found = [start for start in starts if (start >= place if up else start <= place)]
    if not found:
        return place
    return found[0] if up else found[-1]
