"""Ask a model for every text that a suite needs: prompts fitted to its length, and each answer kept on disk as it comes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.evaluation.contestants import Contestant
from spy_env.ballot import after_thinking
from spy_env.masking import units
from trainers import disk
from trainers.engines import Engine, Failed, Reply, Request, Sampling
from trainers.engines.endpoint import EndpointEngine

FAILURES_IN_A_ROW = 20  # ours: an endpoint that fails so often is down
ROWS_AT_A_TIME = 64  # ours: the most of a local model's work that a kill can lose

MARK = "\n[... the middle is left out here ...]\n"
CHINESE_MARK = "\n[……此处略去中间部分……]\n"
CLOSE = 0.97  # share of the room from which on we stop looking for a longer document that fits; our choice
INTERPOLATIONS, HALVINGS = 4, 12  # prompts encoded at most, after the first; our choice, two are common
WINDOW = 200  # characters around a cut in which a border of units is looked for; a longer word is cut within


class UnreachableError(OSError):
    """An endpoint fails every request. Finished work is kept."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's text. ``failed`` gives the reason where the infrastructure gave no reply."""

    text: str = ""
    truncated: bool = False
    failed: str = ""

    @property
    def said(self) -> str:
        """The answer without its ``<think>`` parts."""
        return after_thinking(self.text).strip()


class Finished:
    """JSON lines that are only added to, each under the key of its content. One process at a time adds to a file.

    Everything that changes an answer is in its key, so no line is ever stale; a later run takes those that it needs.
    """

    def __init__(self, file: Path) -> None:
        """Read the file; the half line of a process that was killed is cut off.

        Raises:
            ValueError: the file holds a line that isn't ours.
        """
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self._rows: dict[str, dict[str, Any]] = {}
        written = file.read_bytes() if file.exists() else b""
        whole = written.rfind(b"\n") + 1
        if whole < len(written):
            with file.open("r+b") as half:
                half.truncate(whole)
        for number, line in enumerate(written[:whole].splitlines(), start=1):
            try:
                row = json.loads(line)
                self._rows[row["key"]] = row
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{file}:{number} is no line of finished work ({error!r}); remove the line, or give another --output"
                ) from error

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the row under a key."""
        return self._rows.get(key)

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, those of earlier runs too."""
        return list(self._rows.values())

    def add(self, key: str, **row: Any) -> dict[str, Any]:
        """Keep finished work; it is on the disk when this returns."""
        kept = {"key": key, **row}
        line = json.dumps(kept, ensure_ascii=False)
        # Half a character can't be encoded; escaped with a backslash it is JSON's escape for it.
        disk.append(self.file, line.encode("utf-8", "backslashreplace").decode() + "\n")
        self._rows[key] = kept
        return kept


def content_key(*parts: Any) -> str:
    """Return a name for content: the first 32 hexadecimal digits of the SHA-256 of its JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:32]


def answer_of(row: Mapping[str, Any]) -> Answer:
    """Return the answer that a row of finished work holds."""
    return Answer(str(row["text"]), bool(row["truncated"]))


class Ask(NamedTuple):
    """One text to be generated. ``sample`` numbers the answers to one prompt."""

    set: str
    item: str
    prompt: str
    sampling: Sampling
    sample: int = 0


def answer_all(who: Contestant, asks: Sequence[Ask], finished: Finished, seed: int, what: str) -> list[Answer]:
    """Return an answer to each ask, in order; finished ones aren't generated again. ``what`` names the progress bar.

    An ask that the infrastructure fails has an answer with ``failed`` set, which isn't kept, so that a later run tries
    again. An answer is as long as its sampling allows, and the model's length beside the prompt.

    Raises:
        UnreachableError: the endpoint is down.
    """
    asks = [ask._replace(sampling=_within(ask, who)) for ask in asks]
    keys = [content_key(who.fingerprint, ask.prompt, asdict(ask.sampling), ask.sample, seed) for ask in asks]
    answers = {key: answer_of(row) for key in keys if (row := finished.get(key))}
    missing = {key: ask for key, ask in zip(keys, asks, strict=True) if key not in answers}
    if missing:
        # Prompts of similar length come together, as local models generate in batches.
        order = sorted(missing, key=lambda key: len(missing[key].prompt))
        requests = [Request(missing[key].prompt, f"{seed}/{key}", missing[key].sampling) for key in order]
        known = len(keys) - len(missing)
        with tqdm(desc=what, total=len(keys), initial=known, unit="text", dynamic_ncols=True) as bar:
            for i, reply in as_answered(who.engine, requests, who.name, len(requests), len(answers)):
                answers[order[i]] = _kept(reply, order[i], missing[order[i]], who, finished)
                bar.update()
    return [answers[key] for key in keys]


def _within(ask: Ask, who: Contestant) -> Sampling:
    """Return an ask's sampling, no longer than the contestant may answer: one token where the prompt leaves none."""
    longest = [ask.sampling.max_new_tokens]
    if who.max_new_tokens is not None:
        longest.append(who.max_new_tokens)
    if who.max_len is not None:
        longest.append(max(1, who.max_len - who.reader.count_tokens(ask.prompt, ask.sampling.prefill)))
    return replace(ask.sampling, max_new_tokens=min(longest))


def _kept(reply: Reply | Failed, key: str, ask: Ask, who: Contestant, finished: Finished) -> Answer:
    if isinstance(reply, Failed):
        return Answer(failed=reply.reason)
    row = finished.add(
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
    return answer_of(row)


def as_answered(
    engine: Engine, requests: Iterable[Request], name: str, expected: int, before: int = 0
) -> Iterator[tuple[int, Reply | Failed]]:
    """Yield each request's place and its answer, as they come.

    ``expected``: how many requests there may be; ``before``: how many others were answered, by earlier runs too.

    A request that is refused for its own sake, such as a prompt too long, is no sign of an endpoint that is down, unless
    the endpoint never answered any. Once it seems down nothing more is sent, but requests under way are waited for.

    Raises:
        UnreachableError: ``FAILURES_IN_A_ROW`` requests failed one after another, or all that there ever were.
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
    while batch := list(islice(numbered, ROWS_AT_A_TIME)):
        replies = engine.generate([request for _, request in batch])
        yield from zip((i for i, _ in batch), replies, strict=True)


class Fitted(NamedTuple):
    """A prompt that fits, and whether its document was shortened for it."""

    prompt: str
    shortened: bool


def fitted(
    document: str,
    prompt_of: Callable[[str], str],
    count: Callable[[str], int],
    room: int | None,
    mark: str = MARK,
) -> Fitted:
    """Return the prompt on a document, which loses its middle where ``count`` finds more than ``room`` tokens (None: no limit).

    Half of the characters that are kept are at each end, up to borders of words.

    Raises:
        ValueError: not even the prompt without a document fits.
    """
    whole = prompt_of(document)
    if room is None or (too_many := count(whole)) <= room:
        return Fitted(whole, False)
    prompt = prompt_of(mark)
    if (tokens := count(prompt)) > room:
        raise ValueError(
            f"a prompt has {tokens} tokens without its document, and {room} are free for it; give a larger --max_len, "
            "or a model with a longer context"
        )
    # Narrow down the characters to keep, between a number that fits and one that doesn't: first by the
    # tokens counted at both, then by halves. Few prompts are encoded, as encoding takes long.
    kept, too_long = 0, len(document)
    for encoded in range(INTERPOLATIONS + HALVINGS):
        if tokens >= CLOSE * room or too_long - kept <= 1:
            break
        share = (room * (1 + CLOSE) / 2 - tokens) / (too_many - tokens) if encoded < INTERPOLATIONS else 0.5
        characters = min(max(kept + int((too_long - kept) * share), kept + 1), too_long - 1)
        shorter = prompt_of(without_middle(document, characters, mark))
        if (counted := count(shorter)) <= room:
            kept, tokens, prompt = characters, counted, shorter
        else:
            too_long, too_many = characters, counted
    return Fitted(prompt, True)


def without_middle(text: str, characters: int, mark: str = MARK) -> str:
    """Return at most ``characters`` of a text, half of them from each end, with ``mark`` where the middle was."""
    head = _border(text, characters - characters // 2, up=False)
    tail = _border(text, len(text) - characters // 2, up=True)
    return text[:head].rstrip() + mark + text[tail:].lstrip()


def _border(text: str, place: int, up: bool) -> int:
    """Return the beginning of a unit at a place, or the nearest below or above it; the place itself in a long word."""
    begin = max(0, place - WINDOW)
    starts = [begin + unit.start for unit in units(text[begin : place + WINDOW])]
    if begin:
        starts = starts[1:]  # the first may be the rest of a word
    if up:
        return next((start for start in starts if start >= place), place)
    return next((start for start in reversed(starts) if start <= place), place)
