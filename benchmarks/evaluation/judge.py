"""A model behind an endpoint that answers questions about texts: each at most once, within a cap on cost."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.evaluation.contestants import BYTES_A_TOKEN
from benchmarks.evaluation.generations import Answer, Finished, as_answered, content_key
from trainers.corpus import Say
from trainers.engines import Failed, Reply, Request, Sampling
from trainers.engines.endpoint import EndpointEngine

REPLY_TOKENS = 300  # our guess of a verdict with its reasons, until replies were seen
CALIBRATED = 8  # replies seen before their mean takes the guess's place; we chose it


class CostCapError(ValueError):
    """The next question could cost more than the cap leaves. What was answered is kept."""


class Price(NamedTuple):
    """Dollars per million tokens of prompt and of reply."""

    prompt: float
    reply: float

    def of(self, prompt_tokens: float, reply_tokens: float) -> float:
        """Dollars for so many tokens."""
        return (self.prompt * prompt_tokens + self.reply * reply_tokens) / 1e6


class Bill:
    """What one judge has answered in an output folder, earlier runs included, and what more of it would cost."""

    def __init__(self, judge: str, price: Price | None, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        """``rows``: finished verdicts. Those of other judges count with what they cost then."""
        self.price, self.spent = price, 0.0
        self.replies = self.guessed = self.prompt_tokens = self.reply_tokens = 0
        self._told = self._told_bytes = self._told_prompt = self._told_reply = 0
        for row in rows:
            if row["judge"] == judge:
                self.add(row["prompt_bytes"], row["text"], row["usage"], row["cost"])
            else:
                self.spent += row["cost"] or 0.0

    def add(
        self, prompt_bytes: int, reply: str, usage: Iterable[int] | None, cost: float | None = None
    ) -> float | None:
        """Count a reply; its cost in dollars, which is ``cost`` where it was known before, or None without a price."""
        told = tuple(usage or ())
        if not any(told):  # some endpoints tell zeros
            told = ()
        prompt_tokens, reply_tokens = told or (tokens(prompt_bytes), tokens(len(reply.encode("utf-8", "replace"))))
        if told:
            self._told, self._told_bytes = self._told + 1, self._told_bytes + prompt_bytes
            self._told_prompt, self._told_reply = self._told_prompt + prompt_tokens, self._told_reply + reply_tokens
        else:
            self.guessed += 1
        self.replies += 1
        self.prompt_tokens += prompt_tokens
        self.reply_tokens += reply_tokens
        if cost is None and self.price:
            cost = self.price.of(prompt_tokens, reply_tokens)
        self.spent += cost or 0.0
        return cost

    def estimate(self, prompts_bytes: Iterable[int], longest_reply: int) -> tuple[int, int]:
        """About how many tokens these prompts and their replies will be."""
        sizes = list(prompts_bytes)
        calibrated = self._told >= CALIBRATED
        a_reply = self._told_reply / self._told if calibrated else min(REPLY_TOKENS, longest_reply)
        return round(sum(map(self._prompt, sizes))), round(a_reply * len(sizes))

    def worst(self, prompt_bytes: int, longest_reply: int) -> float:
        """Dollars for one question whose reply is as long as it may be; 0 without a price."""
        return self.price.of(self._prompt(prompt_bytes), longest_reply) if self.price else 0.0

    def _prompt(self, size: int) -> float:
        if self._told >= CALIBRATED and self._told_bytes:
            return size * self._told_prompt / self._told_bytes
        return tokens(size)


def tokens(size: int) -> int:
    """About how many tokens so many bytes are; rather too many."""
    return -(-size // BYTES_A_TOKEN)


def dollars(amount: float) -> str:
    """An amount in dollars, with enough digits to be told from nothing."""
    return f"${amount:,.2f}" if amount >= 0.1 or not amount else f"${amount:.2g}"


VERDICTS = "verdicts.jsonl"


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Who judges and how it is asked. ``price``: dollars per million tokens of prompt and of reply.

    The client's pauses between tries grow from half a second to 8, so that 10 of them outlast a limit that is counted
    by the minute; a ``Retry-After`` of at most two minutes is obeyed, a longer one is a failure.
    """

    url: str
    model: str
    max_new_tokens: int = 1024
    concurrency: int = 16
    timeout: float = 120.0  # seconds for one question
    retries: int = 10
    price: tuple[float, float] | None = None
    max_cost: float | None = None  # dollars in all, over the output folder

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.retries < 0 or self.timeout <= 0:
            raise ValueError(
                f"the judge's concurrency is {self.concurrency}, its retries {self.retries} and its timeout {self.timeout}; "
                "give at least 1, at least 0 and more than 0"
            )
        if self.price is not None and (len(self.price) != 2 or min(self.price) < 0):
            raise ValueError(
                f"the judge's price is {self.price}; give dollars per million tokens of prompt and of reply"
            )
        if self.max_cost is not None and not self.max_cost > 0:
            raise ValueError(f"the judge's cap on cost is {self.max_cost}; give dollars above 0, or leave it out")
        if self.max_cost is not None and self.price is None:
            raise ValueError(
                f"a cap of {dollars(self.max_cost)} needs the judge's price: give --judge_price with dollars per million "
                "tokens of prompt and of reply"
            )


class Judge:
    """Asks an endpoint and keeps what it says in ``verdicts.jsonl``, found by its content, whoever asks again."""

    def __init__(self, settings: JudgeSettings, output: Path, say: Say = print) -> None:
        """The key is read from JUDGE_API_KEY, else OPENAI_API_KEY; ``say`` is told the estimate before anything is asked.

        Raises:
            ValueError: the ``api`` extra isn't installed.
        """
        self.settings, self.name, self._say = settings, f"{settings.url}:{settings.model}", say
        key = os.environ.get("JUDGE_API_KEY") or os.environ.get("OPENAI_API_KEY") or "none"
        self._engine = EndpointEngine(
            settings.url, settings.model, key, settings.timeout, settings.retries, settings.concurrency
        )
        self.sampling = Sampling(settings.max_new_tokens, greedy=True)
        self._finished = Finished(output / VERDICTS)
        price = Price(*settings.price) if settings.price else None
        self.bill = Bill(self.name, price, self._finished.rows())

    def key(self, prompt: str, sampling: Sampling | None = None) -> str:
        """The name of a question in ``verdicts.jsonl``."""
        return content_key(self.name, prompt, asdict(sampling or self.sampling))

    def ask(self, prompts: Sequence[str], what: str, sampling: Sampling | None = None) -> list[Answer]:
        """An answer for each prompt, in order; greedy unless ``sampling`` says otherwise. ``what`` names the progress bar.

        A question that was answered before isn't asked again, and one that stands here twice is asked once. An answer
        that couldn't be had has ``failed`` set and isn't kept, so that a later run asks again.

        Raises:
            CostCapError: the estimate is above what the cap leaves, or the cap is reached.
            UnreachableError: the judge is down.
        """
        sampling = sampling or self.sampling
        keys = [self.key(prompt, sampling) for prompt in prompts]
        missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if self._finished.get(key) is None}
        self._show_estimate(missing, len(set(keys)), what, sampling)
        failed = self._ask(missing, len(set(keys)), what, sampling) if missing else {}
        return [_answer(row) if (row := self._finished.get(key)) else Answer(failed=failed[key]) for key in keys]

    def about(self) -> dict[str, Any]:
        """Who judged and what it took so far, over the output folder, for ``results.json``."""
        bill = self.bill
        return {
            "judge": self.name,
            "decoding": asdict(self.sampling),
            "answers": bill.replies,
            "answers_with_guessed_tokens": bill.guessed,
            "prompt_tokens": bill.prompt_tokens,
            "reply_tokens": bill.reply_tokens,
            "cost_dollars": bill.spent if bill.price else None,
        }

    def _show_estimate(self, missing: Mapping[str, str], wanted: int, what: str, sampling: Sampling) -> None:
        """Say what is to come, and stop before it begins where it would cost too much."""
        bill, cap = self.bill, self.settings.max_cost
        tokens_in, tokens_out = bill.estimate(map(_bytes, missing.values()), sampling.max_new_tokens)
        line = f"{what}: {wanted} questions to {self.name}, {wanted - len(missing)} of them answered before"
        if not missing:
            self._say(line)
            return
        line += f"; the rest is about {tokens_in:,} tokens in and {tokens_out:,} out"
        if not bill.price:
            self._say(f"{line}; no price was given, so what it costs isn't known and has no cap")
            return
        cost = bill.price.of(tokens_in, tokens_out)
        self._say(f"{line}, about {dollars(cost)}" + (f"; {self._standing()}" if cap is not None else ""))
        if cap is not None and bill.spent + cost > cap:
            raise CostCapError(
                f"{what}: {len(missing)} questions would cost about {dollars(cost)}, and {self._standing()}. None was asked; "
                "raise --judge_max_cost, or lower --limit"
            )

    def _standing(self) -> str:
        guessed = self.bill.guessed
        note = f" (guessed from bytes for {guessed} answers whose tokens the endpoint doesn't tell)" if guessed else ""
        return f"{dollars(self.bill.spent)}{note} of the cap of {dollars(self.settings.max_cost or 0)} is spent"

    def _ask(self, missing: Mapping[str, str], wanted: int, what: str, sampling: Sampling) -> dict[str, str]:
        """Ask what is missing, as far as the cap reaches; why each failed that did."""
        pending, failed = deque(missing.items()), dict[str, str]()
        with tqdm(desc=what, total=wanted, initial=wanted - len(missing), unit="verdict", dynamic_ncols=True) as bar:
            while pending:
                sent, under_way = list[str](), dict[str, float]()
                affordable = self._affordable(pending, sent, under_way, sampling)
                before = wanted - len(pending) - len(failed)
                for i, reply in as_answered(self._engine, affordable, self.name, len(pending), before):
                    del under_way[sent[i]]
                    if isinstance(reply, Failed):
                        failed[sent[i]] = reply.reason
                    else:
                        self._keep(sent[i], missing[sent[i]], reply, what)
                    bar.update()
                if not sent:
                    raise CostCapError(
                        f"{what}: the next question could pass the cap: {self._standing()}, and {len(pending)} questions are "
                        "left. Every answer is kept: run the same command again with a higher --judge_max_cost to go on "
                        "from here, or with a lower --limit"
                    )
        return failed

    def _affordable(
        self, pending: deque[tuple[str, str]], sent: list[str], under_way: dict[str, float], sampling: Sampling
    ) -> Iterator[Request]:
        """Questions for as long as the cap holds even if every reply under way were as long as it may be.

        They go from ``pending`` to ``sent`` and, with their worst cost, to ``under_way``, which the caller empties. Where
        this ends, more may fit once what is under way is answered.
        """
        cap = self.settings.max_cost
        while pending:
            key, prompt = pending[0]
            worst = self.bill.worst(_bytes(prompt), sampling.max_new_tokens)
            if cap is not None and self.bill.spent + sum(under_way.values()) + worst > cap:
                return
            pending.popleft()
            sent.append(key)
            under_way[key] = worst
            yield Request(prompt, key, sampling)

    def _keep(self, key: str, prompt: str, reply: Reply, what: str) -> None:
        size = _bytes(prompt)
        cost = self.bill.add(size, reply.text, reply.usage)
        self._finished.add(
            key,
            judge=self.name,
            what=what,
            text=reply.text,
            truncated=reply.truncated,
            usage=reply.usage,
            prompt_bytes=size,
            cost=cost,
        )


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _answer(row: Mapping[str, Any]) -> Answer:
    return Answer(str(row["text"]), bool(row["truncated"]))
