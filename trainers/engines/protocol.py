"""What an engine is: requests in; text, tokens and log-probabilities out.

An engine answers a whole batch of requests. What the infrastructure could not do comes back as ``Failed`` in the
request's place, so that the rest of the batch is kept; a bug raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from spy_env.ranges import check_ranges, ranged


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are generated. Where they are trained on, nothing but the temperature bends the distribution.

    ``prefill`` is put in the mouth of the seat: it belongs to the prompt and isn't trained. ``stop`` ends a reply at
    the first token that holds it. The rest is for evaluations, whose protocols ask for it: ``greedy`` takes the
    likeliest token, ``top_p`` and ``top_k`` sample among the likeliest (1 and 0: among all).
    """

    max_new_tokens: int = ranged(1024, least=1)
    temperature: float = ranged(1.0, above=0, hint="1 samples from the model as it is")
    prefill: str = ""
    stop: str = ""
    greedy: bool = False
    top_p: float = ranged(1.0, above=0, most=1, hint="1 samples among all tokens")
    top_k: int = ranged(0, least=0, hint="0 samples among all tokens")

    def __post_init__(self) -> None:
        check_ranges(self)


class Request(NamedTuple):
    """One reply to be generated. ``seed`` makes its chance its own, whatever else is in the batch."""

    prompt: str
    seed: str
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Reply:
    """What was generated. Token ids and log-probabilities are as sampled; empty where an engine tells none.

    ``prompt_ids`` end with the prefill; ``ids`` hold the end-of-sequence token where one was sampled.
    ``logprobs`` are of the distribution sampled from, natural logarithm, one for each of ``ids``. ``usage``: the tokens
    of prompt and reply that an endpoint bills, where it tells them.
    """

    text: str
    prefix: str = ""
    truncated: bool = False
    prompt_ids: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    usage: tuple[int, int] | None = None


class Failed(NamedTuple):
    """The infrastructure gave no reply; never scored. ``refused``: it takes requests, but not this one."""

    reason: str
    refused: bool = False


class Reader(Protocol):
    """Anything that reads prompts as tokens."""

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """The length of a prompt as it is encoded here; 0 where no limit is known."""


class Engine(Reader, Protocol):
    """Anything that answers requests."""

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """One answer for each request, in order."""
