"""ROUGE-L by both packages that papers use, which differ by points; and the numbers of a data set."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

from benchmarks.evaluation.data_sets import Items
from benchmarks.evaluation.generations import Answer, Finished, content_key
from benchmarks.evaluation.intervals import mean
from benchmarks.evaluation.results import Score, score_of
from benchmarks.evaluation.summarization_tasks import TASKS
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


LEAD = "lead baseline"


class Written(NamedTuple):
    """A contestant's answers by data set, in the order of the items, and how many prompts had to be shortened."""

    answers: dict[str, list[Answer]]
    shortened: dict[str, int]


def scored(name: str, answer: Answer) -> str | None:
    """What is scored of an answer; None where the infrastructure gave none."""
    if answer.failed:
        return None
    return answer.said.split("\n")[0].strip() if TASKS[name].first_line else answer.said


def set_scores(name: str, read: Items, written: Mapping[str, Written], finished: Finished, bar: Any) -> list[Score]:
    """A set's scores. Those of each text are kept in ``finished``: long texts take a while. ``bar`` is told of every text."""
    variants = variants_of(name, read)
    texts = {who: [scored(name, answer) for answer in theirs.answers[name]] for who, theirs in written.items()}
    texts[LEAD] = [shorten(row["document"], TASKS[name].lead) for row in read.rows]
    measured: dict[str, list[dict[str, float]]] = {who: [] for who in texts}
    for who, theirs in texts.items():
        for row, text in zip(read.rows, theirs, strict=True):
            measured[who].append({} if text is None else _measured(name, row, who, text, variants, finished))
            bar.update()
    scores = []
    for variant in variants:
        values = {who: [found.get(variant.name) for found in by_item] for who, by_item in measured.items()}
        for who, by_item in values.items():
            counts = _counts(name, written[who], texts[who]) if who in written else {}
            there = [value for value in by_item if value is not None]
            scores.append(score_of(name, variant.name, who, mean(there), {**read.excluded, **counts}))
        if "base" in written:
            scores.append(_difference(name, variant.name, values["model"], values["base"]))
    return scores


def _measured(
    name: str, row: Mapping[str, Any], who: str, text: str, variants: Sequence[Metric], finished: Finished
) -> dict[str, float]:
    """A text's score by each metric."""
    references = row["references"]
    key = content_key(name, row["id"], who, text, references, [variant.name for variant in variants])
    kept = finished.get(key) or finished.add(
        key, set=name, item=row["id"], who=who, scores={each.name: each.score(text, references) for each in variants}
    )
    return dict(kept["scores"])


def variants_of(name: str, read: Items) -> list[Metric]:
    """The metrics of a set, with what its items make of them in their names.

    Raises:
        ValueError: a package isn't installed.
    """
    chinese = any(is_chinese(reference) for row in read.rows for reference in row["references"])
    shots = ""
    if name == "samsum":
        with_examples = sum(bool(row["examples"]) for row in read.rows)
        shots = {0: ", zero-shot", len(read.rows): ", few-shot"}.get(with_examples, ", partly few-shot")
    return [metric._replace(name=metric.name + shots) for metric in metrics(chinese)]


def _difference(name: str, metric: str, model: Sequence[float | None], base: Sequence[float | None]) -> Score:
    """Model minus base, on the items that both answered."""
    both = [(a, b) for a, b in zip(model, base, strict=True) if a is not None and b is not None]
    without = {"failed": len(model) - len(both)}
    return score_of(
        name, f"{metric}, difference", "model against base", mean([ours - theirs for ours, theirs in both]), without
    )


def _counts(name: str, theirs: Written, texts: Sequence[str | None]) -> dict[str, int]:
    answers = theirs.answers[name]
    there = [text for text in texts if text is not None]
    ended = [TASKS[name].first_line and "\n" in answer.said for answer in answers]
    return {
        "shortened": theirs.shortened.get(name, 0),
        "truncated": sum(answer.truncated and not whole for answer, whole in zip(answers, ended, strict=True)),
        "empty": sum(not has_words(text) for text in there),
        "failed": len(texts) - len(there),
        "cut for scoring": sum(map(is_cut, there)),
    }
