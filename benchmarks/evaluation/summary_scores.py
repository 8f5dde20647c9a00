"""From summaries to the numbers of a data set: ROUGE-L of each contestant and of the lead, and the difference to the base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.evaluation.data_sets import Items
from benchmarks.evaluation.finished import Finished, content_key
from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.intervals import difference, mean
from benchmarks.evaluation.results import Score, score_of
from benchmarks.evaluation.rouge_scores import Metric, has_words, is_chinese, is_cut, metrics
from benchmarks.evaluation.summarization_tasks import TASKS
from spy_env.documents import shorten

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
        name,
        f"{metric}, difference",
        "model against base",
        difference([ours - theirs for ours, theirs in both]),
        without,
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
