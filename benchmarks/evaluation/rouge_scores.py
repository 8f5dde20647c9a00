"""ROUGE-L by both packages that papers use, which differ by points; and the numbers of a data set of summaries."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from types import SimpleNamespace
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
LEAD = "lead baseline"

_HAN_AND_KANA = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WORDS = re.compile(r"[^\W_]+")


class Metric(NamedTuple):
    """A variant of ROUGE-L: its name, and an F-score from 0 to 1 of an answer and a reference."""

    name: str
    score: Callable[[str, str], float]

    def best(self, answer: str, references: Sequence[str]) -> float:
        """Score an answer against the best of its references."""
        return max(self.score(answer, reference) for reference in references)


def metrics(chinese: bool) -> tuple[Metric, Metric]:
    """Return LongBench's variant and Google's; where a reference is ``chinese``, their names say so.

    Raises:
        ValueError: a package isn't installed.
    """
    for package in ("rouge", "rouge_score", *(["jieba"] if chinese else [])):
        try:
            import_module(package)
        except ImportError as error:
            raise ValueError(f"ROUGE needs the package {package}: pip install -e '.[eval]' in the checkout") from error
    words = ", jieba's words for Chinese" if chinese else ""
    return (
        Metric(f"rouge-l F (rouge {version('rouge')}{words})", rouge_package),
        Metric(f"rougeL F (rouge-score {version('rouge-score')}, no stemmer{words})", google_package),
    )


def rouge_package(answer: str, reference: str) -> float:
    """Return rouge-l F of the ``rouge`` package, called as by LongBench: sentences end at full stops, jieba cuts Chinese."""
    from rouge import Rouge

    if not (has_words(answer) and has_words(reference)):
        return 0.0  # the package raises where there is no sentence
    answer, reference = shorten(answer, LONGEST_ANSWER), shorten(reference, LONGEST_REFERENCE)
    if is_chinese(reference):
        answer, reference = " ".join(_chinese_words(answer)), " ".join(_chinese_words(reference))
    with _deep_enough(len(answer.split()) + len(reference.split())):
        return float(Rouge(metrics=["rouge-l"]).get_scores([answer], [reference], avg=True)["rouge-l"]["f"])


@contextmanager
def _deep_enough(words: int) -> Iterator[None]:
    """Make room for the package's recursion, one call per word of both texts; such calls take none of the system's stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + words + 100)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def google_package(answer: str, reference: str) -> float:
    """Return rougeL F of ``rouge-score``, with a tokenizer of ours where its own would drop the reference's letters."""
    from rouge_score.rouge_scorer import RougeScorer

    answer, reference = shorten(answer, LONGEST_ANSWER), shorten(reference, LONGEST_REFERENCE)
    scorer = RougeScorer(["rougeL"], use_stemmer=False, tokenizer=_tokenizer(reference))
    return float(scorer.score(reference, answer)["rougeL"].fmeasure)


def _tokenizer(reference: str) -> Any:
    """Return a tokenizer for Google's package, which keeps letters and digits in lower case; None for the package's own."""
    letters = [letter for letter in reference if letter.isalpha()]
    if is_chinese(reference):
        return SimpleNamespace(tokenize=lambda text: _WORDS.findall(" ".join(_chinese_words(text.lower()))))
    if sum(not letter.isascii() for letter in letters) > OTHER_FROM * len(letters):
        return SimpleNamespace(tokenize=lambda text: _WORDS.findall(text.lower()))
    return None


def _chinese_words(text: str) -> list[str]:
    """Cut a text by jieba's dictionary (of simplified characters; it cuts others by what is likely), and into single kana."""
    import jieba

    jieba.setLogLevel(logging.WARNING)
    return list(jieba.cut(text, cut_all=False))


def is_chinese(reference: str) -> bool:
    """Return whether a text is written without spaces between its words, in Han characters or kana."""
    letters = sum(map(str.isalpha, reference))
    return letters > 0 and len(_HAN_AND_KANA.findall(reference)) >= CHINESE_FROM * letters


def has_words(text: str) -> bool:
    """Return whether there is anything to score: a letter or a digit of any script."""
    return any(map(str.isalnum, text))


def is_cut(answer: str) -> bool:
    """Return whether an answer is too long to be scored as a whole."""
    return shorten(answer, LONGEST_ANSWER) != answer


class Written(NamedTuple):
    """A contestant's answers by data set, in the order of the items, and how many prompts had to be shortened."""

    answers: dict[str, list[Answer]]
    shortened: dict[str, int]


def scored(name: str, answer: Answer) -> str | None:
    """Return the part of an answer that is scored; None where the infrastructure gave no answer."""
    if answer.failed:
        return None
    return answer.said.split("\n")[0].strip() if TASKS[name].first_line else answer.said


def set_scores(name: str, read: Items, written: Mapping[str, Written], finished: Finished, bar: Any) -> list[Score]:
    """Return a set's scores. Those of each text, which may take a while, are kept in ``finished``; ``bar`` counts texts."""
    variants = variants_of(name, read)
    texts = {who: [scored(name, answer) for answer in theirs.answers[name]] for who, theirs in written.items()}
    texts[LEAD] = [shorten(row["document"], TASKS[name].lead) for row in read.rows]
    by_text: dict[str, list[dict[str, float]]] = {who: [] for who in texts}
    for who, theirs in texts.items():
        for row, text in zip(read.rows, theirs, strict=True):
            by_text[who].append({} if text is None else _measured(name, row, who, text, variants, finished))
            bar.update()
    scores = []
    for variant in variants:
        values = {who: [of_text.get(variant.name) for of_text in by_text[who]] for who in texts}
        for who in texts:
            counts = _counts(name, written[who], texts[who]) if who in written else {}
            given = [value for value in values[who] if value is not None]
            scores.append(score_of(name, variant.name, who, mean(given), {**read.excluded, **counts}))
        if "base" in written:
            scores.append(_difference(name, variant.name, values["model"], values["base"]))
    return scores


def variants_of(name: str, read: Items) -> list[Metric]:
    """Return the metrics of a set; their names say how its items are scored and, for SAMSum, asked for.

    Raises:
        ValueError: a package isn't installed.
    """
    chinese = any(is_chinese(reference) for row in read.rows for reference in row["references"])
    shots = ""
    if name == "samsum":
        with_examples = sum(bool(row["examples"]) for row in read.rows)
        shots = {0: ", zero-shot", len(read.rows): ", few-shot"}.get(with_examples, ", partly few-shot")
    return [metric._replace(name=metric.name + shots) for metric in metrics(chinese)]


def _measured(
    name: str, row: Mapping[str, Any], who: str, text: str, variants: Sequence[Metric], finished: Finished
) -> dict[str, float]:
    """Score a text by each metric, unless that is finished."""
    references = row["references"]
    key = content_key(name, row["id"], who, text, references, [variant.name for variant in variants])
    kept = finished.get(key) or finished.add(
        key, set=name, item=row["id"], who=who, scores={each.name: each.best(text, references) for each in variants}
    )
    return dict(kept["scores"])


def _difference(name: str, metric: str, model: Sequence[float | None], base: Sequence[float | None]) -> Score:
    """Subtract the base's scores on the items that both answered."""
    both = [ours - theirs for ours, theirs in zip(model, base, strict=True) if ours is not None and theirs is not None]
    missing = {"failed": len(model) - len(both)}
    return score_of(name, f"{metric}, difference", "model against base", mean(both), missing)


def _counts(name: str, written: Written, texts: Sequence[str | None]) -> dict[str, int]:
    answers = written.answers[name]
    given = [text for text in texts if text is not None]
    whole = [TASKS[name].first_line and "\n" in answer.said for answer in answers]  # though the answer may be truncated
    return {
        "shortened": written.shortened.get(name, 0),
        "truncated": sum(answer.truncated and not ended for answer, ended in zip(answers, whole, strict=True)),
        "empty": sum(not has_words(text) for text in given),
        "failed": len(texts) - len(given),
        "cut for scoring": sum(map(is_cut, given)),
    }
