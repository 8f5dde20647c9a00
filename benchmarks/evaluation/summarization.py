"""The summarization suite: ROUGE-L on LongBench's five sets and three more, and summaries judged against the base's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tqdm import tqdm

from benchmarks.evaluation import pairs
from benchmarks.evaluation.contestants import Contestant, EstimatedReader
from benchmarks.evaluation.data_sets import Items, read_set
from benchmarks.evaluation.flags import Calls, Run
from benchmarks.evaluation.generations import CHINESE_MARK, MARK, Ask, Finished, Fitted, answer_all, fitted
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.pairs import Pair
from benchmarks.evaluation.results import Results, Score
from benchmarks.evaluation.rouge_scores import LEAD, Written, has_words, is_chinese, scored, set_scores, variants_of
from benchmarks.evaluation.summarization_tasks import DATA_SETS, TASKS, Framed, framed
from trainers.engines import Sampling

NAME = "summarization"
SETS = tuple(DATA_SETS)
JUDGED_TOKENS = 8192  # of the request that a judge reads, counted as for an endpoint; our choice
CRITERIA = {
    "overall": "which summary serves a reader of the document better: it is true to the document, holds what matters most "
    "in it, does what was asked, and reads well"
}
JUDGING = {
    "judged request": f"the task and the document, which loses its middle beyond {JUDGED_TOKENS} tokens estimated from "
    "bytes; examples aren't shown",
    "criteria": dict(CRITERIA),
    **pairs.PROTOCOL,
}


def items(run: Run) -> dict[str, Items]:
    """Read the items by data set; a reference without a word counts as none.

    Raises:
        ValueError: a set can't be read, or there is none at all.
    """

    def read(name: str) -> Items | None:
        items = read_set(DATA_SETS[name], run.data, run.limit, run.seed)
        return None if items is None else _with_references(name, items)

    return run.read_sets(NAME, SETS, read)


def _with_references(name: str, read: Items) -> Items:
    """Return the items that have references with words, as a list; refuse what isn't text."""
    rows, excluded = [], Counter(read.excluded)
    for row in read.rows:
        where = f"{read.source}, item {row['id']}"
        references = [row["references"]] if isinstance(row["references"], str) else row["references"]
        if not isinstance(references, list) or not all(isinstance(reference, str) for reference in references):
            raise ValueError(f"{where}: the references are {str(references)[:80]!r}; give a text or a list of texts")
        for field in ("document", "query", "examples"):
            if not isinstance(row.get(field) or "", str):
                raise ValueError(f"{where}: {field} is {str(row[field])[:80]!r}; give a text")
        if with_words := [reference for reference in references if has_words(reference)]:
            rows.append({**row, "references": with_words})
        else:
            excluded["no references"] += 1
    if not rows:
        raise ValueError(f"{read.source}: no item of {name} has a reference with words in it; nothing could be scored")
    return read._replace(rows=rows, excluded=dict(excluded))


def calls(run: Run, items: Mapping[str, Items], against: bool, judged: bool) -> Calls:
    """Count one text per item, and two questions per pair, whose criteria are asked about at once."""
    texts = sum(len(read.rows) for read in items.values())
    return Calls(texts, 2 * texts if against and judged else 0)


def generate(run: Run, items: Mapping[str, Items], who: Contestant) -> Written:
    """Have a contestant summarize every document.

    Raises:
        ValueError: a prompt doesn't fit even without its document, or a package for ROUGE isn't installed.
        UnreachableError: the endpoint is down.
    """
    for name, read in items.items():
        variants_of(name, read)  # a missing package is an error before anything is paid for
    asks, shortened = [], Counter[str]()
    rows = [(name, row) for name, read in items.items() for row in read.rows]
    for name, row in tqdm(rows, desc=f"{who.role}: prompts of {NAME}", unit="text", dynamic_ncols=True, delay=5):
        prompt, cut = _prompt(name, row, who)
        shortened[name] += cut
        asks.append(Ask(name, row["id"], prompt, Sampling(TASKS[name].new_tokens, greedy=True)))
    finished = Finished(run.output / NAME / "generations.jsonl")
    answers = iter(answer_all(who, asks, finished, run.seed, f"{who.role}: {NAME}"))
    return Written({name: [next(answers) for _ in read.rows] for name, read in items.items()}, dict(shortened))


def _prompt(name: str, row: dict[str, Any], who: Contestant) -> Fitted:
    longest = min(TASKS[name].new_tokens, who.max_new_tokens or TASKS[name].new_tokens)
    room = None if who.max_len is None else who.max_len - longest
    try:
        return _shortened(framed(name, row), lambda prompt: who.reader.count_tokens(prompt, ""), room)
    except ValueError as error:
        raise ValueError(f"{name}, item {row['id']}, for {who.name} with {who.max_len} tokens: {error}") from error


def _shortened(frame: Framed, count: Callable[[str], int], room: int | None) -> Fitted:
    mark = CHINESE_MARK if is_chinese(frame.before) else MARK
    return fitted(frame.middle, frame.around, count, room, mark)


def score(run: Run, items: Mapping[str, Items], answers: Mapping[str, Written], judge: Judge | None) -> Results:
    """Return ROUGE-L of each contestant and of the documents' leads, the differences to the base, and the judged pairs.

    Raises:
        ValueError: a package for ROUGE isn't installed.
        UnreachableError, CostCapError: the judge's.
    """
    scores: list[Score] = []
    texts = sum(len(read.rows) for read in items.values()) * (len(answers) + 1)
    finished = Finished(run.output / NAME / "scores.jsonl")
    with tqdm(desc=f"{NAME}: ROUGE", total=texts, unit="text", dynamic_ncols=True) as bar:
        for name, read in items.items():
            scores += set_scores(name, read, answers, finished, bar)
    notes, protocol = [_source(name, read) for name, read in items.items()], _protocol(items)
    if judge and "base" in answers:
        made, shortened = _pairs(items, answers)
        scores += pairs.compare(judge, made, CRITERIA, run.seed, run.output / NAME, f"{NAME}: pairs")
        notes.append(f"the judge read {shortened} of {len(made)} documents shortened to {JUDGED_TOKENS} tokens")
        protocol |= JUDGING
    return Results(NAME, scores, protocol, notes)


def _source(name: str, read: Items) -> str:
    left_out = ", ".join(f"{count}: {reason}" for reason, count in read.excluded.items())
    used = f"{name}: {len(read.rows)} of {read.total} items from {read.source}"
    return f"{used}; left out {left_out}" if left_out else used


def _pairs(items: Mapping[str, Items], written: Mapping[str, Written]) -> tuple[list[Pair], int]:
    """Pair the texts on each document that both wrote about; count the documents that are shortened for the judge."""
    reader, made, shortened = EstimatedReader(), [], 0
    for name, read in items.items():
        texts = [[scored(name, answer) for answer in written[who].answers[name]] for who in (pairs.MODEL, pairs.BASE)]
        for row, ours, theirs in zip(read.rows, *texts, strict=True):
            if ours is None or theirs is None:
                continue
            frame = framed(name, {**row, "examples": None})
            request = _shortened(frame, lambda prompt: reader.count_tokens(prompt, ""), JUDGED_TOKENS)
            shortened += request.shortened
            made.append(Pair(name, row["id"], request.prompt, ours, theirs))
    return made, shortened


def _protocol(items: Mapping[str, Items]) -> dict[str, Any]:
    return {
        "metrics": "the rouge package's rouge-l F as LongBench computes it (summary level, sentences end at full stops; the "
        "published column), and Google's rougeL F beside it; each the best over the references",
        "language": "where a fifth or more of a reference's letters are Han or kana, both packages are given jieba's words; "
        "Google's is given words of any alphabet where most letters aren't a-z, which are all that its own tokenizer keeps. "
        "Simplified characters aren't turned into traditional ones, nor back",
        "prompts": "our own, one message through the model's chat template; scores of LongBench's prompts differ, and it "
        "gives SAMSum's to the model without a template",
        "decoding": {name: f"greedy, at most {TASKS[name].new_tokens} new tokens" for name in items},
        "scored": "what follows a model's thinking, without white space around it; of SAMSum the first line. An answer "
        "without a word scores 0 and is counted as empty; what the infrastructure failed is left out and counted",
        "shortening": "where a prompt and its answer exceed the model's length, the document (of SAMSum with examples: the "
        "examples) loses its middle, with a mark in its place; half of the kept characters are from each end",
        LEAD: {name: f"the document's first {TASKS[name].lead} words or Chinese characters" for name in items},
    }
