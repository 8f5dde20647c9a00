"""An engine for rollouts: replies by script, tokens counted by a function, and trouble where a test wants it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from spy_env.observations import read_results
from trainers.engines import Failed, Reply, Request


def says_little(prompt: str) -> str:
    return r"\boxed{2}" if read_results(prompt) else "Summary: a bridge"


def words(text: str) -> int:
    return len(text.split())


class CountingEngine:
    """Replies by a function of the prompt, counts tokens by another, keeps its batches, fails when it is told to."""

    def __init__(
        self,
        player: Callable[[str], str] = says_little,
        tokens: Callable[[str], int] = words,
        fails: Callable[[Request, int], bool] = lambda request, times: False,
    ) -> None:
        self.player, self.tokens, self.fails = player, tokens, fails
        self.batches: list[list[Request]] = []
        self.asked: Counter[str] = Counter()

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        self.batches.append(list(requests))
        return [self.one(request) for request in requests]

    def one(self, request: Request) -> Reply | Failed:
        self.asked[request.seed] += 1
        if self.fails(request, self.asked[request.seed] - 1):
            return Failed("the cable was cut")
        return Reply(self.player(request.prompt))

    def count_tokens(self, prompt: str, prefill: str) -> int:
        return self.tokens(prompt + prefill)
