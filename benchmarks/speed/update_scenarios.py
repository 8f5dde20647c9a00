"""Samples of one game, laid out as games lay them out, for measuring an update."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from spy_env import Stage
from trainers.samples import Sample


@dataclass(frozen=True, slots=True)
class Scenario:
    """Samples of one game: prompts of ``prompt`` tokens of which the first ``shared`` are everyone's."""

    name: str
    samples: int
    alike: int  # how many samples have one prompt; each other goes its own way after ``shared`` tokens
    prompt: int
    shared: int
    reply: int
    lora: bool = False


SCENARIOS = (
    Scenario("5 players, 512-token prompts, the spy shares 40 %, 64-token replies", 5, 4, 512, 205, 64),
    Scenario("the same with LoRA", 5, 4, 512, 205, 64, lora=True),
    Scenario("8 referees, one 768-token prompt, 24-token replies", 8, 8, 768, 768, 24),
    Scenario("8 voters whose prompts share all but the last 40 of 768 tokens", 8, 0, 768, 728, 24),
    Scenario("5 players, one 2,048-token prompt, 128-token replies", 5, 5, 2048, 2048, 128),
)


def samples_of(scenario: Scenario, vocabulary: int, seed: int = 0) -> list[Sample]:
    """Random tokens in the scenario's layout, sampled evenly: about what a random model says, so that clipping takes part."""
    rng = Random(seed)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(rng.randrange(5, vocabulary) for _ in range(count))

    common = tokens(scenario.shared)
    public = common + tokens(scenario.prompt - scenario.shared)
    return [
        Sample(
            game="0",
            stage=Stage.PERFORMING,
            seat=f"player_{i + 1}",
            role="civilian",
            prompt_ids=public if i < scenario.alike else common + tokens(scenario.prompt - scenario.shared),
            ids=tokens(scenario.reply),
            logprobs=(-math.log(vocabulary),) * scenario.reply,
            truncated=False,
            reward=0.0,
        )
        for i in range(scenario.samples)
    ]
