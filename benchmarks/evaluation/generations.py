"""Ask a model for everything a suite needs, and keep each answer on disk as it comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import NamedTuple

from tqdm import tqdm

from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.finished import Finished, content_key
from spy_env.ballot import after_thinking
from trainers.engines import Engine, Failed, Reply, Request, Sampling
from trainers.engines.endpoint import EndpointEngine

FAILURES_IN_A_ROW = 20  # ours: an endpoint that fails so often is down
ROWS_AT_A_TIME = 64  # ours: what a kill can lose of a local model's work


class Ask(NamedTuple):
    """One text to be generated. ``sample`` tells several answers to one prompt apart."""

    set: str
    item: str
    prompt: str
    sampling: Sampling
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote. ``failed`` says why there is none: the infrastructure gave no reply."""

    text: str = ""
    truncated: bool = False
    failed: str = ""

    @property
    def said(self) -> str:
        """The answer without its ``<think>`` parts."""
        return after_thinking(self.text).strip()


class UnreachableError(OSError):
    """An endpoint fails every request. What was finished is kept."""


def answer_all(who: Contestant, asks: Sequence[Ask], finished: Finished, seed: int, what: str) -> list[Answer]:
    """An answer for each ask, in order; those finished before aren't generated again. ``what`` names the progress bar.

    An ask that the infrastructure fails is answered with ``failed`` set and isn't kept, so that a later run tries again.
    An answer is as long as its sampling lets it, and the model's room beside the prompt.

    Raises:
        UnreachableError: the endpoint is down.
    """
    asks = [ask._replace(sampling=_within(ask, who)) for ask in asks]
    keys = [content_key(who.fingerprint, ask.prompt, asdict(ask.sampling), ask.sample, seed) for ask in asks]
    answers = {key: _answer(row) for key in keys if (row := finished.get(key))}
    missing = {key: ask for key, ask in zip(keys, asks, strict=True) if key not in answers}
    if missing:
        order = sorted(
            missing, key=lambda key: len(missing[key].prompt)
        )  # local batches hold prompts of similar length
        requests = [Request(missing[key].prompt, f"{seed}/{key}", missing[key].sampling) for key in order]
        bar = tqdm(desc=what, total=len(keys), initial=len(keys) - len(missing), unit="text", dynamic_ncols=True)
        with bar:
            for i, reply in as_answered(who.engine, requests, who.name, len(requests), len(answers)):
                answers[order[i]] = _kept(reply, order[i], missing[order[i]], who, finished)
                bar.update()
    return [answers[key] for key in keys]


def _within(ask: Ask, who: Contestant) -> Sampling:
    """An ask's sampling, no longer than the contestant may answer. A prompt that fills its room still gets one token."""
    longest = ask.sampling.max_new_tokens
    if who.max_new_tokens is not None:
        longest = min(longest, who.max_new_tokens)
    if who.max_len is not None:
        longest = min(longest, max(1, who.max_len - who.reader.count_tokens(ask.prompt, ask.sampling.prefill)))
    return replace(ask.sampling, max_new_tokens=longest)


def _kept(reply: Reply | Failed, key: str, ask: Ask, who: Contestant, finished: Finished) -> Answer:
    if isinstance(reply, Failed):
        return Answer(failed=reply.reason)
    return _answer(
        finished.add(
            key,
            who=who.role,
            model=who.name,
            set=ask.set,
            item=ask.item,
            sample=ask.sample,
            text=who.opening + reply.text,
            truncated=reply.truncated,
            usage=reply.usage,
        )
    )


def _answer(row: dict[str, object]) -> Answer:
    return Answer(str(row["text"]), bool(row["truncated"]))


def as_answered(
    engine: Engine, requests: Iterable[Request], name: str, expected: int, before: int = 0
) -> Iterator[tuple[int, Reply | Failed]]:
    """Each request's place and its answer, as they come.

    ``expected``: how many requests there may be; ``before``: how many beside them were answered, by earlier runs too.

    A request that is refused for its own sake, such as a prompt too long, is no sign of an endpoint that is down, unless
    it never answered any. Once it seems down nothing more is sent, but what is under way is waited for and yielded.

    Raises:
        UnreachableError: ``FAILURES_IN_A_ROW`` requests failed one after another, or all that were ever wanted.
    """
    failures, answered, down = 0, before > 0, ""

    def while_up() -> Iterator[Request]:
        for request in requests:
            if down:
                return
            yield request

    for i, reply in _streamed(engine, while_up()):
        yield i, reply
        if not isinstance(reply, Failed):
            failures, answered = 0, True
            continue
        failures += not (reply.refused and answered)
        if not down and failures >= (FAILURES_IN_A_ROW if reply.refused else min(FAILURES_IN_A_ROW, expected + before)):
            down = f"{name} gave no answer {failures} times in a row; the last: {reply.reason}"
    if down:
        raise UnreachableError(f"{down}. Everything finished is kept: run the same command again to go on from here")


def _streamed(engine: Engine, requests: Iterator[Request]) -> Iterator[tuple[int, Reply | Failed]]:
    if isinstance(engine, EndpointEngine):
        yield from engine.as_answered(requests)
        return
    numbered = enumerate(requests)
    while taken := list(islice(numbered, ROWS_AT_A_TIME)):
        replies = engine.generate([request for _, request in taken])
        yield from zip((i for i, _ in taken), replies, strict=True)
