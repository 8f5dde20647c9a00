"""A model behind an endpoint that answers questions about texts: each at most once, within a cap on cost."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.evaluation.contestants import BYTES_A_TOKEN
from benchmarks.evaluation.generations import Answer, Finished, answer_of, as_answered, content_key
from trainers.corpus import Say
from trainers.engines import Failed, Reply, Request, Sampling
from trainers.engines.endpoint import EndpointEngine

VERDICTS = "verdicts.jsonl"
REPLY_TOKENS = 300  # our guess of a verdict with its reasons, until replies were seen
CALIBRATED = 8  # replies seen before their mean takes the guess's place; we chose it


class CostCapError(ValueError):
    """The next question could cost more than the cap leaves. The answers so far are kept."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Who judges and how it is asked.

    The client's pauses between tries grow from half a second to 8, so that 10 of them outlast a limit that is counted
    by the minute; a ``Retry-After`` of at most two minutes is obeyed, a longer one is a failure.
    """

    url: str
    model: str
    max_new_tokens: int = 1024
    concurrency: int = 16
    timeout: float = 120.0  # seconds for one question
    retries: int = 10
    price: tuple[float, float] | None = None  # dollars per million tokens of prompt and of reply
    max_cost: float | None = None  # dollars in all, over the output folder

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.retries < 0 or self.timeout <= 0:
            raise ValueError(
                f"the judge's concurrency is {self.concurrency}, its retries {self.retries} and its timeout {self.timeout}; "
                "give at least 1, at least 0 and more than 0"
            )
        if self.price is not None and min(self.price) < 0:
            raise ValueError(
                f"the judge's price is {self.price}; give dollars per million tokens of prompt and of reply"
            )
        if self.max_cost is not None and not self.max_cost > 0:
            raise ValueError(f"the judge's cap on cost is {self.max_cost}; give dollars above 0, or leave it out")
        if self.max_cost is not None and self.price is None:
            raise ValueError(
                f"a cap of {_dollars(self.max_cost)} needs the judge's price: give --judge_price with dollars per million "
                "tokens of prompt and of reply"
            )


class Bill:
    """The answers of one judge in an output folder, earlier runs included, and what more of them would cost."""

    def __init__(self, judge: str, price: tuple[float, float] | None, rows: Iterable[Mapping[str, Any]]) -> None:
        """Count the verdicts of earlier runs (``rows``); those of other judges at the dollars that they cost then."""
        self.price, self.spent = price, 0.0
        # Answers, bytes and tokens: as the endpoint counted its tokens, and as we guess them where it didn't.
        self.billed, self.guessed = Counter[str](), Counter[str]()
        for row in rows:
            if row["judge"] == judge:
                self.add(row["prompt_bytes"], row["text"], row["usage"], row["cost"])
            else:
                self.spent += row["cost"] or 0.0

    def add(
        self, prompt_bytes: int, reply: str, usage: Sequence[int] | None, cost: float | None = None
    ) -> float | None:
        """Count a reply; return its dollars: ``cost`` where it was known before, None without a price."""
        if usage and any(usage):  # some endpoints send zeros
            count, (prompt_tokens, reply_tokens) = self.billed, usage
        else:
            count, prompt_tokens, reply_tokens = self.guessed, _tokens(prompt_bytes), _tokens(_bytes(reply))
        count.update(answers=1, bytes=prompt_bytes, prompt=prompt_tokens, reply=reply_tokens)
        if cost is None:
            cost = self.cost(prompt_tokens, reply_tokens)
        self.spent += cost or 0.0
        return cost

    def cost(self, prompt_tokens: float, reply_tokens: float) -> float | None:
        """Return the dollars for so many tokens; None without a price."""
        return self.price and (self.price[0] * prompt_tokens + self.price[1] * reply_tokens) / 1e6

    def total(self, of: str) -> int:
        """Return the sum of ``answers``, ``prompt`` or ``reply`` tokens."""
        return self.billed[of] + self.guessed[of]

    def prompt_tokens(self, size: int) -> float:
        """Estimate the tokens of a prompt from its bytes, by the ratio that the endpoint billed once enough is known."""
        if self.billed["answers"] >= CALIBRATED and self.billed["bytes"]:
            return size * self.billed["prompt"] / self.billed["bytes"]
        return _tokens(size)

    def reply_tokens(self, longest: int) -> float:
        """Estimate the tokens of a reply that has at most ``longest``."""
        if self.billed["answers"] >= CALIBRATED:
            return self.billed["reply"] / self.billed["answers"]
        return min(REPLY_TOKENS, longest)


class Judge:
    """Asks an endpoint and keeps its answers in ``verdicts.jsonl``, each under its question's content, whoever asks again."""

    def __init__(self, settings: JudgeSettings, output: Path, say: Say = print) -> None:
        """Read the key from JUDGE_API_KEY, else OPENAI_API_KEY; ``say`` shows the estimate before anything is asked.

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
        self.bill = Bill(self.name, settings.price, self._finished.rows())

    def key(self, prompt: str, sampling: Sampling | None = None) -> str:
        """Return the name of a question in ``verdicts.jsonl``."""
        return content_key(self.name, prompt, asdict(sampling or self.sampling))

    def ask(self, prompts: Sequence[str], what: str, sampling: Sampling | None = None) -> list[Answer]:
        """Return an answer to each prompt, in order; greedy unless ``sampling`` is given. ``what`` names the progress bar.

        A question that was answered before isn't asked again, and one that comes twice here is asked once. An answer
        that the endpoint didn't give has ``failed`` set and isn't kept, so that a later run asks again.

        Raises:
            CostCapError: the estimate is above what the cap leaves, or the cap is reached.
            UnreachableError: the judge is down.
        """
        sampling = sampling or self.sampling
        keys = [self.key(prompt, sampling) for prompt in prompts]
        missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if self._finished.get(key) is None}
        known = len(set(keys)) - len(missing)
        self._show_estimate(list(missing.values()), known, what, sampling)
        failed = self._ask(missing, known, what, sampling) if missing else {}
        return [answer_of(row) if (row := self._finished.get(key)) else Answer(failed=failed[key]) for key in keys]

    def about(self) -> dict[str, Any]:
        """Return who judged and what it has taken in the output folder so far, for ``results.json``."""
        return {
            "judge": self.name,
            "decoding": asdict(self.sampling),
            "answers": self.bill.total("answers"),
            "answers_with_guessed_tokens": self.bill.guessed["answers"],
            "prompt_tokens": self.bill.total("prompt"),
            "reply_tokens": self.bill.total("reply"),
            "cost_dollars": self.bill.spent if self.bill.price else None,
        }

    def _show_estimate(self, prompts: Sequence[str], known: int, what: str, sampling: Sampling) -> None:
        """Show what is to come, and stop before it begins where it would cost too much."""
        line = f"{what}: {known + len(prompts)} questions to {self.name}, {known} of them answered before"
        if not prompts:
            self._say(line)
            return
        bill, cap = self.bill, self.settings.max_cost
        tokens_in = round(sum(bill.prompt_tokens(_bytes(prompt)) for prompt in prompts))
        tokens_out = round(bill.reply_tokens(sampling.max_new_tokens) * len(prompts))
        line += f"; the rest is about {tokens_in:,} tokens in and {tokens_out:,} out"
        cost = bill.cost(tokens_in, tokens_out)
        if cost is None:
            self._say(f"{line}; no price was given, so what it costs isn't known and has no cap")
            return
        self._say(f"{line}, about {_dollars(cost)}" + (f"; {self._spent()}" if cap is not None else ""))
        if cap is not None and bill.spent + cost > cap:
            raise CostCapError(
                f"{what}: {len(prompts)} questions would cost about {_dollars(cost)}, and {self._spent()}. None was asked; "
                "raise --judge_max_cost, or lower --limit"
            )

    def _spent(self) -> str:
        guessed = self.bill.guessed["answers"]
        note = (
            f" (guessed from bytes for {guessed} answers whose tokens the endpoint doesn't report)" if guessed else ""
        )
        return f"{_dollars(self.bill.spent)}{note} of the cap of {_dollars(self.settings.max_cost or 0)} is spent"

    def _ask(self, missing: Mapping[str, str], known: int, what: str, sampling: Sampling) -> dict[str, str]:
        """Ask the missing questions as far as the cap reaches; return the reason of each failure."""
        pending, failed = deque(missing), dict[str, str]()
        with tqdm(desc=what, total=known + len(missing), initial=known, unit="verdict", dynamic_ncols=True) as bar:
            while pending:
                sent, under_way = list[str](), dict[str, float]()
                requests = self._affordable(missing, pending, sent, under_way, sampling)
                before = known + len(missing) - len(pending) - len(failed)
                for i, reply in as_answered(self._engine, requests, self.name, len(pending), before):
                    del under_way[sent[i]]
                    if isinstance(reply, Failed):
                        failed[sent[i]] = reply.reason
                    else:
                        self._keep(sent[i], missing[sent[i]], reply, what)
                    bar.update()
                if not sent:
                    raise CostCapError(
                        f"{what}: the next question could pass the cap: {self._spent()}, and {len(pending)} questions are "
                        "left. Every answer is kept: run the same command again with a higher --judge_max_cost to go on "
                        "from here, or with a lower --limit"
                    )
        return failed

    def _affordable(
        self,
        prompts: Mapping[str, str],
        pending: deque[str],
        sent: list[str],
        under_way: dict[str, float],
        sampling: Sampling,
    ) -> Iterator[Request]:
        """Yield questions for as long as the cap holds even if every reply under way were as long as it may be.

        Their keys go from ``pending`` to ``sent`` and, with their worst cost, to ``under_way``, which the caller empties.
        After the end of these requests, more may fit once those under way are answered.
        """
        cap = self.settings.max_cost
        while pending:
            key = pending[0]
            prompt_tokens = self.bill.prompt_tokens(_bytes(prompts[key]))
            worst = self.bill.cost(prompt_tokens, sampling.max_new_tokens) or 0.0
            if cap is not None and self.bill.spent + sum(under_way.values()) + worst > cap:
                return
            sent.append(pending.popleft())
            under_way[key] = worst
            yield Request(prompts[key], key, sampling)

    def _keep(self, key: str, prompt: str, reply: Reply, what: str) -> None:
        size = _bytes(prompt)
        self._finished.add(
            key,
            judge=self.name,
            what=what,
            text=reply.text,
            truncated=reply.truncated,
            usage=reply.usage,
            prompt_bytes=size,
            cost=self.bill.add(size, reply.text, reply.usage),
        )


def _tokens(size: int) -> int:
    """Return about how many tokens so many bytes are; rather too many."""
    return -(-size // BYTES_A_TOKEN)


def _dollars(amount: float) -> str:
    """Return an amount in dollars, with enough digits for small ones."""
    return f"${amount:,.2f}" if amount >= 0.1 or not amount else f"${amount:.2g}"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
