"""Plain statistics of texts: how long, how many cut off or empty, how varied. They say nothing about quality."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.intervals import item_share, mean
from benchmarks.evaluation.results import Score, score_of

_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_]+(?:['’][^\W_]+)*")  # as the core counts: one Chinese character is a word


def words(text: str) -> list[str]:
    """A text's words in small letters; one Chinese character counts as one."""
    return [word.lower() for word in _WORD.findall(text)]


def distinct_2(text: str) -> float:
    """The share of a text's pairs of neighbouring words that are different ones (Li et al. 2016); nan below two words."""
    found = words(text)
    pairs = list(pairwise(found))
    return len(set(pairs)) / len(pairs) if pairs else float("nan")


def language(text: str) -> str:
    """``zh`` where a fifth of a text's words are Chinese characters, else ``en``; we chose the share."""
    found = words(text)
    chinese = sum("\u3400" <= word[0] <= "\u9fff" for word in found)
    return "zh" if chinese * 5 > len(found) else "en"


def statistics(set: str, who: str, answers: Sequence[Answer], counts: Mapping[str, int], seed: int) -> Iterator[Score]:
    """Statistics of what a contestant wrote for one set; ``answers`` without those that failed."""
    texts = [answer.said for answer in answers]
    varied = [value for text in texts if (value := distinct_2(text)) == value]
    yield score_of(
        set, "length in words", who, mean([float(len(words(text))) for text in texts], seed), counts, percent=False
    )
    yield score_of(set, "distinct-2 within a text", who, mean(varied, seed))
    yield score_of(set, "truncated texts", who, item_share([float(answer.truncated) for answer in answers], seed))
    yield score_of(set, "empty texts", who, item_share([float(not text) for text in texts], seed))
