"""Policies from nested settings, and samples for them."""

from __future__ import annotations

from random import Random
from typing import Any

from spy_env import Stage
from tests.trainers import tiny_world
from trainers.config import Config
from trainers.embedded.policy import Policy
from trainers.embedded.policy import policy_of as built
from trainers.engines import Request, Sampling
from trainers.engines.encoder import Encoder
from trainers.samples import Sample
from trainers.settings import from_dict

PROMPTS = ("plum", "fig pear kiwi", "lime date plum fig pear date kiwi")
ADVANTAGES = (1.0, -0.5, 0.3, -1.0, 0.7, -0.2, 0.4, -0.9)


def policy_of(folder: str, **groups: Any) -> Policy:
    """A policy with the defaults, but for nested settings such as ``train={"seed": 1}``."""
    return built(from_dict(Config, groups, "test"), folder)


def sample(number: int, prompt: str = "plum", ids: tuple[int, ...] = (5,), **fields: Any) -> Sample:
    """A sample with a game of its own."""
    row = {
        "game": f"game-{number}",
        "stage": Stage.DETECTION,
        "seat": "player_1",
        "role": "civilian",
        "prompt_ids": Encoder(tiny_world.tokenizer()).encode(prompt),
        "ids": ids,
        "logprobs": tuple(-2.5 - 0.1 * i for i in range(len(ids))),
        "truncated": False,
        "reward": 0.0,
    }
    return Sample(**{**row, **fields})


def samples() -> list[Sample]:
    """Eight replies of different lengths to three prompts of different lengths; as many as ``ADVANTAGES``."""
    rng = Random(0)
    return [
        sample(i, PROMPTS[i % 3], tuple(rng.randrange(5, 23) for _ in range(1 + i % 5))) for i in range(len(ADVANTAGES))
    ]


def played(policy: Policy) -> list[Sample]:
    """Eight replies sampled from the policy."""
    sampling = Sampling(8, policy.temperature)
    asked = [Request(PROMPTS[i % 3], f"seed/{i}", sampling) for i in range(len(ADVANTAGES))]
    return [
        sample(i, ids=reply.ids, prompt_ids=reply.prompt_ids, logprobs=reply.logprobs)
        for i, reply in enumerate(policy.engine.generate(asked))
    ]
