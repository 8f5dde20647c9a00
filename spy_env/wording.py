"""How texts are compared: words, n-grams, copying, diversity, likeness. English and Chinese alike, nothing of the game."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import pairwise

# Han and kana: each character counts as a word, since they aren't written apart.
_CJK = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+(?:['’][^\W_{_CJK}]+)*")
_CHARACTER = re.compile(f"[{_CJK}]")
SHINGLE = 4  # words; copying is usually measured with 3 to 5, we chose the middle
SHORTEST = 4  # letters of a content word; our choice: most words of every text are shorter
_EVERYWHERE = """
    about after also been before being both could does during each from have here into itself just many more most much
    only other over same should some such than that their them then there these they this those through under until very
    were what when where which while whose will with within without would your"""
EVERYWHERE = frozenset(_EVERYWHERE.split())  # words of every text; our list

Shingles = frozenset[tuple[str, ...]]


@lru_cache(maxsize=512)  # probes and measures read the same texts
def words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case; in Chinese and Japanese, the characters."""
    return tuple(_WORD.findall(text.casefold()))


def shingles(text: str, size: int = SHINGLE) -> Shingles:
    """Return the distinct runs of ``size`` words; a shorter text is one run, an empty one none."""
    said = words(text)
    return frozenset(zip(*(said[i:] for i in range(min(size, len(said)))), strict=False))


def copied_share(text: str, source: Shingles, size: int = SHINGLE) -> float:
    """Return the share of a text's distinct runs of ``size`` words that occur in ``source``; 0 for an empty text."""
    own = shingles(text, size)
    return len(own & source) / len(own) if own else 0.0


def without_copies(text: str, source: Shingles, size: int = SHINGLE) -> str:
    """Return the words of a text outside of its runs of ``size`` words that occur in ``source``."""
    said = words(text)
    copied = {j for i in range(len(said) - size + 1) if said[i : i + size] in source for j in range(i, i + size)}
    return " ".join(word for i, word in enumerate(said) if i not in copied)


def distinct_2(texts: Sequence[str]) -> float:
    """Return distinct pairs of neighbouring words over all pairs (Li et al. 2016); 1 without pairs."""
    pairs = [pair for text in texts for said in [words(text)] for pair in pairwise(said)]
    return len(set(pairs)) / len(pairs) if pairs else 1.0


def likeness(one: Shingles, other: Shingles) -> float:
    """Return Jaccard's index of two sets of runs; two empty texts are alike."""
    either = one | other
    return len(one & other) / len(either) if either else 1.0


def content_words(text: str) -> set[str]:
    """Return distinct words of content: numbers, longer words, pairs of neighbouring characters."""
    said = words(text)
    single = {word for word in said if not _is_character(word) and _tells(word)}
    pairs = {a + b for a, b in pairwise(said) if _is_character(a) and _is_character(b)}
    return single | pairs


def coverage(text: str, wanted: Collection[str]) -> float:
    """Return the share of ``wanted``, which must not be empty, among a text's content words."""
    return len(content_words(text).intersection(wanted)) / len(wanted)


def _tells(word: str) -> bool:
    return any(map(str.isdigit, word)) or (len(word) >= SHORTEST and word not in EVERYWHERE)


def _is_character(word: str) -> bool:
    return len(word) == 1 and bool(_CHARACTER.match(word))
