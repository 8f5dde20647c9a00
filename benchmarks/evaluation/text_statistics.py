"""Plain statistics of texts: how long, how many cut off or empty, how varied. They say nothing about quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.intervals import item_share, mean
from benchmarks.evaluation.results import Score, score_of
from spy_env.diagnostics.wording import distinct_2, words


def language(text: str) -> str:
    """``zh`` where a fifth of a text's words are Chinese characters, else ``en``; we chose the share."""
    found = words(text)
    chinese = sum("\u3400" <= word[0] <= "\u9fff" for word in found)
    return "zh" if chinese * 5 > len(found) else "en"


def statistics(set: str, who: str, answers: Sequence[Answer], counts: Mapping[str, int], seed: int) -> Iterator[Score]:
    """Statistics of what a contestant wrote for one set; ``answers`` without those that failed."""
    texts = [answer.said for answer in answers]
    varied = [distinct_2([text]) for text in texts if len(words(text)) > 1]
    yield score_of(
        set, "length in words", who, mean([float(len(words(text))) for text in texts], seed), counts, percent=False
    )
    yield score_of(set, "distinct-2 within a text", who, mean(varied, seed))
    yield score_of(set, "truncated texts", who, item_share([float(answer.truncated) for answer in answers], seed))
    yield score_of(set, "empty texts", who, item_share([float(not text) for text in texts], seed))
