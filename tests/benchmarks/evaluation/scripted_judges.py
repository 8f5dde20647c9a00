"""Judges for tests: what they see of a question of ours, and verdicts by a rule, in this process or behind an endpoint."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from random import Random

from benchmarks.evaluation import generations
from benchmarks.evaluation.generations import content_key
from benchmarks.evaluation.judge import Judge, JudgeSettings
from tests.chat_server import Answer, says


def texts_of(prompt: str) -> tuple[str, str]:
    """The texts A and B of a question, as the judge sees them."""
    a, b = prompt.split("\nText A:\n")[1].split("\n\nText B:\n")
    return unquoted(a), unquoted(b.split("\n\n")[0])


def unquoted(lines: str) -> str:
    assert all(line.startswith("|") for line in lines.split("\n"))
    return "\n".join(line.removeprefix("|").removeprefix(" ") for line in lines.split("\n"))


def chance(seed: object, prompt: str) -> float:
    return Random(hashlib.sha256(f"{seed}/{prompt}".encode()).hexdigest()).random()


def noisy(seed: object, bias: float, quality: Callable[[str], float]) -> Callable[[str], str]:
    """Names the first text with a chance that grows with ``bias`` and with how much better it is."""

    def verdict(prompt: str) -> str:
        first, second = texts_of(prompt)
        strength = bias + quality(first) - quality(second)
        return r"\boxed{A}" if chance(seed, prompt) < 1 / (1 + math.exp(-strength)) else r"\boxed{B}"

    return verdict


class JudgeByRule:
    """Answers in this process; ``asked`` are the questions it got."""

    name = "a rule"

    def __init__(self, rule: Callable[[str], str | None]) -> None:
        self.rule, self.asked = rule, []

    def key(self, prompt, sampling=None):
        return content_key(prompt)

    def ask(self, prompts, what, sampling=None):
        self.asked += prompts
        return [answer_of(self.rule(prompt)) for prompt in prompts]


def answer_of(text: str | None) -> generations.Answer:
    """What a judge said; ``<cut>`` at its end: it ran out of tokens; None: there is no answer."""
    if text is None:
        return generations.Answer(failed="no answer")
    return generations.Answer(text.removesuffix("<cut>"), truncated=text.endswith("<cut>"))


def bills(text: str, prompt_tokens: int, reply_tokens: int) -> Answer:
    """An answer with the tokens that the endpoint counted."""
    row = json.loads(says(text).body)
    row["usage"] = {"prompt_tokens": prompt_tokens, "completion_tokens": reply_tokens, "total_tokens": 0}
    return Answer(json.dumps(row).encode())


def judge_at(server, output, say=lambda _: None, **settings) -> Judge:
    settings = {"model": "a-judge", "retries": 1, "timeout": 5.0, **settings}
    return Judge(JudgeSettings(server.url, **settings), output, say)
