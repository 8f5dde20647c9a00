"""Choose and hide text: the operators g(x) that make a spy's copy of a document.

Text is measured in units: a white-space word, or one CJK character. Sequences with combining marks and joiners
(accents, emoji families) are never split.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import NamedTuple

SPANS_PER_DOCUMENT = 3  # for operator "spans"; our choice: few enough that each still hides a whole statement
MARKER = "[hidden]"  # operator "marker"

_WORD = re.compile(r"\S+")
# Han, kana, and the punctuation and full-width forms set between them. Hangul is written with spaces: words.
_CJK = re.compile(
    "[\u3001-\u303f\u3041-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]”’]*(?=\s)|(?<=[。！？])[」』”’]*|\Z")
_ZERO_WIDTH_JOINER = "\u200d"
_EXTENDING = frozenset({"Mn", "Me", "Mc", "Cf"})  # combining marks, variation selectors, joiners, tags
_VOICED_MARKS = "\uff9e\uff9f"  # half-width kana's, letters by category
_LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # what str.splitlines splits at


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a document."""

    start: int
    end: int


def units(text: str) -> Iterator[Span]:
    """Yield the units of a text in order."""
    if _only_words(text):
        for word in _WORD.finditer(text):
            yield Span(*word.span())
        return
    for word in _WORD.finditer(text):
        yield from _units_of_word(word.group(), word.start())


def count_units(text: str) -> int:
    """Count the units of a text."""
    return len(text.split()) if _only_words(text) else sum(1 for _ in units(text))


def unit_start(text: str, index: int) -> int:
    """Return where the unit at ``index`` (from 0) begins; the text's length if it has fewer."""
    if not _only_words(text):
        return next(islice(units(text), index, None), Span(len(text), len(text))).start
    pieces = text.split(None, index)  # splits where _WORD does, many times faster than a walk over all units
    return len(text) - len(pieces[index]) if len(pieces) > index else len(text)


def _only_words(text: str) -> bool:
    return text.isascii() or not _CJK.search(text)


def _units_of_word(word: str, offset: int) -> Iterator[Span]:
    start = 0
    for i in range(1, len(word)):
        if _extends(word[i]) or word[i - 1] == _ZERO_WIDTH_JOINER:
            continue
        if _CJK.match(word[i]) or _CJK.match(word[start]):
            yield Span(offset + start, offset + i)
            start = i
    yield Span(offset + start, offset + len(word))


def _extends(character: str) -> bool:
    skin_tone = "\U0001f3fb" <= character <= "\U0001f3ff"
    return skin_tone or character in _VOICED_MARKS or unicodedata.category(character) in _EXTENDING


Chooser = Callable[[str, int, int, Random], tuple[Span, ...]]
"""Chooses spans from a text, its number of units, the number of units to hide, and chance."""


def _span_of(text: str, first: int, size: int) -> Span:
    return Span(unit_start(text, first), len(text[: unit_start(text, first + size)].rstrip()))


def _one_span(text: str, total: int, size: int, rng: Random) -> tuple[Span, ...]:
    return (_span_of(text, rng.randrange(total - size + 1), size),)


def _several_spans(text: str, total: int, size: int, rng: Random) -> tuple[Span, ...]:
    """Choose spans of nearly equal size, uniformly over all placements in which none overlap."""
    count = min(SPANS_PER_DOCUMENT, size)
    sizes = [size // count + (i < size % count) for i in range(count)]
    places = sorted(rng.sample(range(total - size + count), count))
    firsts = [place - i + sum(sizes[:i]) for i, place in enumerate(places)]
    return tuple(_span_of(text, first, n) for first, n in zip(firsts, sizes, strict=True))


def _sentences(text: str, total: int, size: int, rng: Random) -> tuple[Span, ...]:
    """Choose whole sentences at random until at least ``size`` units are hidden."""
    sentences = list(_sentence_spans(text))
    rng.shuffle(sentences)
    chosen: list[Span] = []
    hidden = 0
    while hidden < size and sentences:
        sentence = sentences.pop()
        chosen.append(sentence)
        hidden += count_units(text[sentence.start : sentence.end])
    return tuple(sorted(chosen))


def _sentence_spans(text: str) -> Iterator[Span]:
    start = 0
    for end in (match.end() for match in _SENTENCE_END.finditer(text)):
        sentence = text[start:end]
        if sentence.strip():
            yield Span(start + len(sentence) - len(sentence.lstrip()), start + len(sentence.rstrip()))
        start = end


def _nothing(text: str, total: int, size: int, rng: Random) -> tuple[Span, ...]:
    return ()


def _stars(hidden: str) -> str:
    """Replace every character but line breaks by ``*``, which keeps the length."""
    lines = hidden.splitlines(keepends=True)
    return "".join("*" * len(body) + line[len(body) :] for line in lines for body in [line.rstrip(_LINE_BREAKS)])


@dataclass(frozen=True, slots=True)
class Operator:
    """A way to hide text: how spans are chosen, how they are rendered, and how prompts describe it."""

    choose: Chooser
    render: Callable[[str], str]
    described: str


OPERATORS: Mapping[str, Operator] = {
    "span": Operator(_one_span, _stars, "one passage is blanked out with asterisks"),
    "spans": Operator(_several_spans, _stars, "several passages are blanked out with asterisks"),
    "sentences": Operator(_sentences, _stars, "some sentences are blanked out with asterisks"),
    "removal": Operator(_one_span, lambda hidden: "", "one passage has been cut out"),
    "marker": Operator(_one_span, lambda hidden: MARKER, f"one passage is replaced by {MARKER}"),
    # The ablation without a handicap: prompts are the same as with "span", and nothing is hidden.
    "none": Operator(_nothing, _stars, "one passage is blanked out with asterisks"),
}


def operator_named(name: str) -> Operator:
    """Look an operator up.

    Raises:
        ValueError: there is no such operator.
    """
    if name not in OPERATORS:
        raise ValueError(f"no masking operator named {name!r}; choose one of {sorted(OPERATORS)}")
    return OPERATORS[name]


def choose_spans(text: str, fraction: float, rng: Random, operator: str = "span") -> tuple[Span, ...]:
    """Choose what to hide: max(1, round(fraction x units)) units, placed uniformly at random.

    ``sentences`` hides whole sentences and so rounds up; ``none`` chooses nothing.
    """
    total = count_units(text)
    size = min(total, max(1, round(fraction * total)))
    return operator_named(operator).choose(text, total, size, rng)


def hide(text: str, spans: Sequence[Span], operator: str = "span") -> str:
    """Hide ``spans`` (ordered, not overlapping) in a text; spans past the text's end are ignored."""
    render = operator_named(operator).render
    pieces = []
    position = 0
    for span in spans:
        if span.start >= len(text):
            break
        pieces.append(text[position : span.start])
        pieces.append(render(text[span.start : span.end]))
        position = span.end
    pieces.append(text[position:])
    return "".join(pieces)
