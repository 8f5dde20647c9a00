"""Creative writing: WritingPrompts and WritingBench, by a judge. Pairs against a base, and WritingBench's checklists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.evaluation import checklists, pairs
from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.data_sets import DataSet, Hub, Items, drawn, in_words, read_set
from benchmarks.evaluation.flags import Calls, Run
from benchmarks.evaluation.generations import Answer, Ask, Finished, answer_all
from benchmarks.evaluation.intervals import item_share, mean
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.pairs import Pair
from benchmarks.evaluation.results import Results, Score, score_of
from spy_env.wording import distinct_2, words
from trainers.engines import Sampling

NAME = "creative_writing"
PROMPTS = DataSet(
    "writingprompts", "WritingPrompts", Hub("euclaise/writingprompts"), {"prompt": ("prompt",)}, items=200
)
BENCH = DataSet(
    "writingbench",
    "WritingBench",
    Hub(
        "json",
        split="train",  # what the loader calls a single file
        data_files="https://raw.githubusercontent.com/X-PLUG/WritingBench/main/benchmark_query/benchmark_all.jsonl",
    ),
    {"prompt": ("query", "prompt"), "checklist": ("checklist",)},
    {"lang": ("lang",)},
)
SETS = (PROMPTS.name, BENCH.name)
CRITERIA = {
    "novelty": "fresh ideas, images and turns, rather than those that come to mind first",
    "emotion": "feelings that are shown, fit what happens and reach the reader",
    "coherence": "parts that follow from each other, in an order that can be followed, up to an end",
    "consistency": "no contradictions: with the request, or in facts, characters, tone and point of view",
    "overall": "the better answer to the request, all things together",
}
# WritingBench's README; the tables that we compare with name no decoding for WritingPrompts, so it is the same there.
SAMPLING = Sampling(16000, temperature=0.7, top_p=0.8, top_k=20)
LONGEST = {PROMPTS.name: 2048, BENCH.name: 16000}  # ours, and WritingBench's
SHORTEST = 256  # tokens of a reply; a request that leaves no room for them is too long. Ours
PROTOCOL = {
    "writingprompts": "prompts of the test split, drawn by the seed, without tags and joined from tokens; each prompt once, "
    "none that asks for an image or isn't a prompt. The request is our own sentence and the prompt; at most 2,048 tokens",
    "writingbench": "requests as they are; at most 16,000 tokens, or what the model's length leaves",
    "decoding": "top_p 0.8, top_k 20, temperature 0.7, as WritingBench has it",
    "too long": f"a request that leaves fewer than {SHORTEST} tokens for the reply is left out and counted, never cut",
    "texts": "what a model wrote without its thinking; one that ran out of tokens is judged as it is, and counted",
}
Found = Mapping[str, Items]
Written = Mapping[str, Mapping[str, Answer]]
"""Answers by set and item, without the items whose request is too long."""


def items(run: Run) -> Found:
    """Read the requests of both sets.

    Raises:
        ValueError: the data can't be read, no chosen set is there, or a checklist is incomplete.
    """
    by_set: dict[str, Items] = {}
    if PROMPTS.name in run.chosen(SETS) and (read := read_set(replace(PROMPTS, items=None), run.data, None, run.seed)):
        by_set[PROMPTS.name] = _prompts(read, run)
    if BENCH.name in run.chosen(SETS) and (read := read_set(BENCH, run.data, run.limit, run.seed)):
        for row in read.rows:
            checklists.check(row)
            row["lang"] = row["lang"] or language(row["prompt"])
        by_set[BENCH.name] = read
    if not by_set:
        raise ValueError(
            f"creative writing has no data: {run.data or 'the choice of sets'} holds none of {list(SETS)}; give --data FOLDER "
            "with writingprompts.jsonl or writingbench.jsonl, or choose one of these sets"
        )
    for name, read in by_set.items():
        left_out = f"; left out: {read.excluded}" if read.excluded else ""
        run.say(f"{name}: {_used(read)}{left_out}")
    return by_set


def _used(read: Items) -> str:
    return f"{len(read.rows)} of {read.total} items from {read.source}"


def _prompts(read: Items, run: Run) -> Items:
    """Draw from the prompts in words, so that the limit counts those alone."""
    excluded = Counter(read.excluded)
    rows = in_words(read.rows, excluded)
    if not rows:
        raise ValueError(f"{read.source} has {read.total} rows and no prompt in words ({dict(excluded)})")
    count = PROMPTS.items if run.limit is None else run.limit
    return read._replace(rows=drawn(rows, count, run.seed, PROMPTS.name), excluded=dict(excluded))


def language(text: str) -> str:
    """Return ``zh`` where a fifth of a text's words are Chinese characters, else ``en``; we chose the share."""
    of_text = words(text)
    chinese = sum("\u3400" <= word[0] <= "\u9fff" for word in of_text)
    return "zh" if chinese * 5 > len(of_text) else "en"


def calls(run: Run, items: Found, against: bool, judged: bool) -> Calls:
    """Count the texts that a contestant writes, and the questions that the judge gets at most."""
    texts = sum(len(read.rows) for read in items.values())
    if not judged:
        return Calls(texts, 0)
    bench = items[BENCH.name].rows if BENCH.name in items else []
    grades = sum(len(row["checklist"]) for row in bench)
    return Calls(texts, grades * (1 + against) + 2 * texts * against)


def generate(run: Run, items: Found, who: Contestant) -> Written:
    """Have a contestant write for every request that leaves room for a reply."""
    asks = [
        Ask(name, row["id"], request(name, row), replace(SAMPLING, max_new_tokens=LONGEST[name]))
        for name, read in items.items()
        for row in read.rows
        if _leaves_room(request(name, row), who)
    ]
    finished = Finished(run.output / NAME / "generations.jsonl")
    answers = answer_all(who, asks, finished, run.seed, f"{NAME}, {who.role}")
    written: dict[str, dict[str, Answer]] = {name: {} for name in items}
    for ask, answer in zip(asks, answers, strict=True):
        written[ask.set][ask.item] = answer
    return written


def request(name: str, row: Mapping[str, Any]) -> str:
    """Return the request of an item."""
    prompt = str(row["prompt"])
    return f"Write a short story from this prompt:\n\n{prompt}" if name == PROMPTS.name else prompt


def _leaves_room(prompt: str, who: Contestant) -> bool:
    return who.max_len is None or who.max_len - who.reader.count_tokens(prompt, "") >= SHORTEST


def score(run: Run, items: Found, answers: Mapping[str, Written], judge: Judge | None) -> Results:
    """Return statistics of the texts; with a judge also checklists, and pairs where there is a base."""
    scores, notes = list[Score](), list[str]()
    if judge and BENCH.name in items:
        scores += _graded(run, items[BENCH.name], answers, judge)
    if judge and pairs.BASE in answers:
        compared = list(_compared(run, items, answers, judge))
        scores += compared
        without = [name for name in items if not any(score.set == name for score in compared)]
        notes += [f"{name}: there is no item for which both wrote a text, so no pair" for name in without]
    if not judge:
        notes.append(
            "no judge was given, so nothing here says which texts are better: only statistics of the texts. The texts are kept: "
            "run the same command again with --judge URL:model"
        )
    for name, read in items.items():
        for who, written in answers.items():
            given = [answer for answer in written[name].values() if not answer.failed]
            counts = _counts(read, written[name])
            scores += statistics(name, who, given, counts, run.seed)
            if not given:
                notes.append(f"{name}: {who} has no text at all ({counts})")
    return Results(NAME, scores, _protocol(judge, items), notes)


def _protocol(judge: Judge | None, items: Found) -> dict[str, Any]:
    protocol: dict[str, Any] = dict(PROTOCOL)
    if judge:
        decoding = f"greedy, at most {judge.sampling.max_new_tokens} tokens"
        protocol |= {**checklists.PROTOCOL, **pairs.PROTOCOL, "pairs, judge's decoding": decoding}
    protocol |= {f"data, {name}": _used(read) for name, read in items.items()}
    return protocol | {f"left out, {name}": dict(read.excluded) for name, read in items.items() if read.excluded}


def _counts(read: Items, written: Mapping[str, Answer]) -> dict[str, int]:
    answers = written.values()
    return {
        "prompt too long": len(read.rows) - len(written),
        "failed": sum(bool(answer.failed) for answer in answers),
        "empty": sum(not answer.failed and not answer.said for answer in answers),
        "truncated": sum(answer.truncated for answer in answers),
    }


def statistics(set: str, who: str, answers: list[Answer], counts: Mapping[str, int], seed: int) -> list[Score]:
    """Return statistics of a contestant's texts for one set; ``answers`` are without those that failed."""
    texts = [answer.said for answer in answers]
    lengths = [float(len(words(text))) for text in texts]
    varied = [distinct_2([text]) for text in texts if len(words(text)) > 1]
    truncated, empty = [float(answer.truncated) for answer in answers], [float(not text) for text in texts]
    return [
        score_of(set, "length in words", who, mean(lengths, seed), counts, percent=False),
        score_of(set, "distinct-2 within a text", who, mean(varied, seed)),
        score_of(set, "truncated texts", who, item_share(truncated, seed)),
        score_of(set, "empty texts", who, item_share(empty, seed)),
    ]


def _graded(run: Run, read: Items, answers: Mapping[str, Written], judge: Judge) -> Iterator[Score]:
    """Grade all contestants' texts in one round of questions; each overall score counts the missing texts."""
    texts = [
        checklists.Graded(BENCH.name, who, row, answer.said)
        for who, written in answers.items()
        for row in read.rows
        if (answer := written[BENCH.name].get(row["id"])) and not answer.failed
    ]
    for score in checklists.grade(judge, texts, run.seed, run.output / NAME):
        if score.metric != checklists.METRIC:
            yield score
            continue
        counts = _counts(read, answers[score.who][BENCH.name])
        # The judge's own are counted as failed and truncated beside these.
        missing = {
            "texts failed": counts["failed"],
            "prompt too long": counts["prompt too long"],
            "texts truncated": counts["truncated"],
        }
        yield replace(score, counts=dict(Counter(score.counts) + Counter(missing)))


def _compared(run: Run, items: Found, answers: Mapping[str, Written], judge: Judge) -> Iterator[Score]:
    """Compare the pairs of all sets in one round of questions; scores with counts also count the pairs that are missing."""
    made: list[Pair] = []
    incomplete: Counter[str] = Counter()
    for name, read in items.items():
        for row in read.rows:
            both = [answers[who][name].get(row["id"]) for who in (pairs.MODEL, pairs.BASE)]
            texts = [answer.said for answer in both if answer and not answer.failed]
            if len(texts) == 2:
                made.append(Pair(name, row["id"], request(name, row), *texts))
            else:
                incomplete[name] += 1
    for score in pairs.compare(judge, made, CRITERIA, run.seed, run.output / NAME, "pairs of texts"):
        missing = {"no pair of texts": incomplete[score.set]} if score.counts and incomplete[score.set] else {}
        yield replace(score, counts={**score.counts, **missing})
