"""ROUGE-L by both packages that papers use: they differ by points, so each number carries its package's name.

Both are given words that suit the reference's language. Texts without words score 0 instead of raising.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

from spy_env.documents import shorten

CHINESE_FROM = 0.2  # share of Han and kana among a reference's letters; we chose it, so that names alone don't count
OTHER_FROM = 0.5  # share of letters beyond a-z from which Google's own tokenizer, which drops them, isn't used
# Both packages take time and memory by the product of the lengths. In units (words, or single Chinese characters); no
# answer of 512 tokens is as long, and hardly a reference. Two texts of these lengths without a full stop take 10 seconds and 1.5 GB.
LONGEST_ANSWER, LONGEST_REFERENCE = 2048, 4096

_HAN_AND_KANA = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WORDS = re.compile(r"[^\W_]+")


class Metric(NamedTuple):
    """A variant of ROUGE-L: its name, and an F-score from 0 to 1 of an answer against the best of its references."""

    name: str
    score: Callable[[str, Sequence[str]], float]


def metrics(chinese: bool) -> tuple[Metric, Metric]:
    """LongBench's variant and Google's; ``chinese``: whether a reference is, which the names then say.

    Raises:
        ValueError: a package isn't installed.
    """
    packages = (_needed("rouge"), _needed("rouge_score"))
    if chinese:
        _needed("jieba")
    words = ", jieba's words for Chinese" if chinese else ""
    return (
        Metric(f"rouge-l F (rouge {version(packages[0].__name__)}{words})", rouge_package),
        Metric(f"rougeL F (rouge-score {version('rouge-score')}, no stemmer{words})", google_package),
    )


def has_words(text: str) -> bool:
    """Whether there is anything to score: a letter or a digit of any script."""
    return any(map(str.isalnum, text))


def is_chinese(reference: str) -> bool:
    """Whether a text is written without spaces between its words, in Han characters or kana."""
    letters = sum(map(str.isalpha, reference))
    return letters > 0 and len(_HAN_AND_KANA.findall(reference)) >= CHINESE_FROM * letters


def is_cut(answer: str) -> bool:
    """Whether an answer is too long to be scored as a whole."""
    return shorten(answer, LONGEST_ANSWER) != answer


def rouge_package(answer: str, references: Sequence[str]) -> float:
    """rouge-l F of the ``rouge`` package, as LongBench calls it: sentences end at full stops, Chinese is cut by jieba."""
    return max((_rouge_package(answer, reference) for reference in references), default=0.0)


def _rouge_package(answer: str, reference: str) -> float:
    if not (has_words(answer) and has_words(reference)):
        return 0.0  # the package raises where there is no sentence
    answer, reference = shorten(answer, LONGEST_ANSWER), shorten(reference, LONGEST_REFERENCE)
    if is_chinese(reference):
        answer, reference = " ".join(_chinese_words(answer)), " ".join(_chinese_words(reference))
    with _deep_enough(len(answer.split()) + len(reference.split())):
        return float(_rouge().get_scores([answer], [reference], avg=True)["rouge-l"]["f"])


def google_package(answer: str, references: Sequence[str]) -> float:
    """rougeL F of ``rouge-score``; where its tokenizer would drop the reference's letters, with ours."""
    return max((_google_package(answer, reference) for reference in references), default=0.0)


def _google_package(answer: str, reference: str) -> float:
    answer, reference = shorten(answer, LONGEST_ANSWER), shorten(reference, LONGEST_REFERENCE)
    return float(_google_scorer(reference).score(reference, answer)["rougeL"].fmeasure)


def _google_scorer(reference: str) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    letters = [letter for letter in reference if letter.isalpha()]
    if is_chinese(reference):
        return RougeScorer(["rougeL"], tokenizer=_Tokenizer(_chinese_words))
    if sum(not letter.isascii() for letter in letters) > OTHER_FROM * len(letters):
        return RougeScorer(["rougeL"], tokenizer=_Tokenizer(lambda text: [text]))
    return RougeScorer(["rougeL"], use_stemmer=False)


class _Tokenizer:
    """For Google's package: pieces of a text in lower case, and of these what is made of letters and digits."""

    def __init__(self, pieces: Callable[[str], Sequence[str]]) -> None:
        self._pieces = pieces

    def tokenize(self, text: str) -> list[str]:
        return [word for piece in self._pieces(text.lower()) for word in _WORDS.findall(piece)]


def _chinese_words(text: str) -> list[str]:
    """Words by jieba's dictionary (made for simplified characters; others it cuts by what is likely), and single kana."""
    import jieba

    jieba.setLogLevel(logging.WARNING)
    return list(jieba.cut(text, cut_all=False))


def _rouge() -> Any:
    from rouge import Rouge

    return Rouge(metrics=["rouge-l"])


@contextmanager
def _deep_enough(words: int) -> Iterator[None]:
    """Room for the package's recursion, one call a word of both texts; Python's own calls take no stack of the system."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + words + 100)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _needed(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ValueError(f"ROUGE needs the package {name}: pip install 'spy-env[eval]'") from error
