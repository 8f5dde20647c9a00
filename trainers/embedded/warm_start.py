"""Warm start: before a detector plays, it is fitted to right votes, which the environment knows.

A policy that names one number everywhere is a saturated softmax: its votes have no gradient, and its games equal
rewards. Cross-entropy on the right vote has a gradient wherever the policy starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from spy_env import Game, Seat, Stage
from trainers.engines import Sampling
from trainers.rollout import Played
from trainers.samples import Sample, trained_roles

NAME = "warm_start"  # in logs and seeds, where iterations have the stage that they train
_BOX = "\\boxed{"


def right_votes(played: Iterable[Played], tokenizer: Any, sampling: Sampling, learner: Collection[str]) -> list[Sample]:
    """Return the votes that the learner should have cast, as samples: its own prompts, with the right answer as the reply.

    Voters with the same prompt have one sample together. The spy has none: it would learn to denounce itself.
    """
    samples: dict[tuple[tuple[int, ...], tuple[int, ...]], Sample] = {}
    for one in played:
        game = one.game
        for voter in game.trained_voters:
            if game.role(voter) not in trained_roles(Stage.DETECTION, game.rules.voters).intersection(learner):
                continue
            prompt_ids = one.replies[Stage.DETECTION][voter].prompt_ids
            ids = tuple(tokenizer.encode(right_vote(game, voter, sampling), add_special_tokens=False))
            if not sampling.stop:
                ids = (*ids, tokenizer.eos_token_id)
            sample = Sample(game.seed, Stage.DETECTION, voter, game.role(voter), prompt_ids, ids, (), False, 1.0)
            samples.setdefault((prompt_ids, ids), sample)
    return list(samples.values())


def right_vote(game: Game, voter: Seat, sampling: Sampling) -> str:
    """Return the rest of a right vote after the prefill: the box with the spy's number on the voter's ballot."""
    number = game.ballot(voter).index(game.spy) + 1
    opened = sampling.prefill.endswith(_BOX)
    return f"{number}}}" if opened else f"{_BOX}{number}}}"
