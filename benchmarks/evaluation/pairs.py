"""Which of two contestants writes better: every pair in both orders, and a verdict that turns with the order is a tie.

Outcomes are pure functions of the two verdicts; only ``compare`` asks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation.generations import Answer
from benchmarks.evaluation.intervals import Interval, Places, bootstrap, item_share
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.questions import NO_VERDICT, TIE, comparison, no_verdict, read_comparison
from benchmarks.evaluation.results import AGAINST, Score, score_of
from trainers import disk

MODEL, BASE = "model", "base"
RIDGE = 0.01  # ours: keeps a fit finite where lengths tell all outcomes; a hundredth of one pair's weight
SAME = "none, as all outcomes are the same"
WORTH = {MODEL: 1.0, TIE: 0.5, BASE: 0.0}
PROTOCOL = {
    "pairs": "each pair is judged in both orders, all criteria in one question; a win is a pair whose verdict names the model "
    "in both, a loss one whose verdicts name the base in both, anything else is a tie. Win rate: (wins + ties / 2) / pairs",
    "pairs that aren't asked": "the same text twice is a tie; an empty text loses against one that isn't; both are counted",
    "flips": "verdicts that name the same place in both orders, a share of the pairs that were judged: both verdicts read",
    "pairs left out": "those with a verdict that can't be read, or that the judge didn't give, in either order; counted. "
    "Where all verdicts are such there is no rate",
    "length-controlled win rate": "a logistic regression of the outcome (1, 1/2, 0) on the difference of the texts' lengths in "
    f"characters, divided by its root mean square, with a ridge of {RIDGE}, read at no difference; an empty text is no "
    "short one, so its pair counts as in the win rate. After the idea of AlpacaEval 2 (Dubois et al. 2024), which "
    "controls for more than length",
    "judge's prompts": "our own; texts are shown whole, each line quoted",
}


class Pair(NamedTuple):
    """What two contestants wrote for the same request."""

    set: str
    item: str
    request: str
    model: str
    base: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pair came out by one criterion. ``first``, ``second``: whom the verdict names with the model's text first, and
    second; None where it wasn't asked. ``winner``: MODEL, BASE or TIE; None where the pair is left out, and why."""

    pair: Pair
    criterion: str
    winner: str | None
    first: str | None = None
    second: str | None = None
    why: str = ""

    @property
    def asked(self) -> bool:
        """Whether both verdicts are there."""
        return self.first is not None and self.second is not None

    @property
    def flipped(self) -> bool:
        """Whether both verdicts name the same place: one names the model, the other the base."""
        return {self.first, self.second} == {MODEL, BASE}

    @property
    def longer(self) -> int:
        """By how many characters the model's text is longer."""
        return len(self.pair.model) - len(self.pair.base)


def compare(
    judge: Judge, pairs: Sequence[Pair], criteria: Mapping[str, str], seed: int, folder: Path, what: str = "pairs"
) -> list[Score]:
    """Win, tie and flip rates by set and criterion (name: what it means); every outcome goes to ``pairs.jsonl``.

    Raises:
        CostCapError, UnreachableError: as ``Judge.ask``.
    """
    prompts = {
        i: (
            comparison(pair.request, pair.model, pair.base, criteria),
            comparison(pair.request, pair.base, pair.model, criteria),
        )
        for i, pair in enumerate(pairs)
        if not settled(pair)
    }
    answers = iter(judge.ask([prompt for both in prompts.values() for prompt in both], what))
    verdicts = {i: (_read(next(answers), criteria), _read(next(answers), criteria)) for i in prompts}
    outcomes = {
        criterion: [
            judged(pair, criterion, *verdicts[i]) if i in verdicts else unasked(pair, criterion)
            for i, pair in enumerate(pairs)
        ]
        for criterion in criteria
    }
    keys = {i: [judge.key(prompt) for prompt in both] for i, both in prompts.items()}
    rows = (
        _row(outcome, keys.get(i, [])) for of_criterion in outcomes.values() for i, outcome in enumerate(of_criterion)
    )
    folder.mkdir(parents=True, exist_ok=True)
    disk.write_whole(folder / "pairs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return [
        score
        for name in dict.fromkeys(pair.set for pair in pairs)
        for criterion in criteria
        for score in scores(name, criterion, [each for each in outcomes[criterion] if each.pair.set == name], seed)
    ]


Verdict = Mapping[str, str] | str
"""``A``, ``B`` or ``TIE`` by criterion; or one of ``NO_VERDICT``."""


def _read(answer: Answer, criteria: Mapping[str, str]) -> Verdict:
    return no_verdict(answer) if answer.failed else read_comparison(answer.text, criteria) or no_verdict(answer)


def settled(pair: Pair) -> bool:
    """Whether a pair needs no judge: its texts are the same, or one is empty."""
    model, base = pair.model.strip(), pair.base.strip()
    return model == base or not model or not base


def unasked(pair: Pair, criterion: str) -> Outcome:
    """The outcome of a pair that needs no judge."""
    model, base = pair.model.strip(), pair.base.strip()
    if model == base:
        return Outcome(pair, criterion, TIE, why="the same text" if model else "both empty")
    return Outcome(pair, criterion, MODEL if model else BASE, why=f"empty ({BASE if model else MODEL})")


def judged(pair: Pair, criterion: str, first: Verdict, second: Verdict) -> Outcome:
    """The outcome of both verdicts: ``first`` of the model's text as A, ``second`` of the model's text as B."""
    if isinstance(first, str) or isinstance(second, str):
        why = next(reason for reason in NO_VERDICT if reason in (first, second))
        return Outcome(pair, criterion, None, why=why)
    names = (
        {"A": MODEL, "B": BASE, TIE: TIE}[first[criterion]],
        {"A": BASE, "B": MODEL, TIE: TIE}[second[criterion]],
    )
    return Outcome(pair, criterion, names[0] if names[0] == names[1] else TIE, *names)


def scores(name: str, criterion: str, outcomes: Sequence[Outcome], seed: int) -> list[Score]:
    """What the outcomes of one set by one criterion come to."""
    told = [outcome for outcome in outcomes if outcome.winner is not None]
    asked = [outcome for outcome in told if outcome.asked]
    if not asked and len(told) < len(outcomes):  # the judge gave nothing: pairs that need none aren't what it would say
        told = []
    won = np.array([WORTH[outcome.winner or TIE] for outcome in told])
    longer = np.array([outcome.longer for outcome in told], dtype=float)
    counts = {
        "pairs": len(outcomes),
        "judged": len(asked),
        **Counter(outcome.why for outcome in outcomes if outcome.why),
    }
    lengths = {"model longer": int((longer > 0).sum()), "base longer": int((longer < 0).sum())}

    def share(whom: str) -> list[float]:
        return [float(outcome.winner == whom) for outcome in told]

    rated = {
        "win rate": (item_share(won.tolist(), seed), counts),
        "length-controlled win rate": (_controlled(told, won, longer, seed), {**counts, **lengths}),
        "wins": (item_share(share(MODEL), seed), {}),
        "ties": (item_share(share(TIE), seed), {}),
        "losses": (item_share(share(BASE), seed), {}),
        "flips": (item_share([float(outcome.flipped) for outcome in asked], seed), {}),
    }
    return [
        score_of(name, f"{metric}, {criterion}", AGAINST, interval, seen) for metric, (interval, seen) in rated.items()
    ]


def _controlled(told: Sequence[Outcome], won: NDArray[np.float64], longer: NDArray[np.float64], seed: int) -> Interval:
    """The win rate at equal length. A pair with one empty text isn't fitted: its length would excuse the loss."""
    fitted = np.array([bool(each.pair.model.strip()) == bool(each.pair.base.strip()) for each in told], dtype=bool)

    def rate(places: Places) -> float:
        alike, others = places[fitted[places]], places[~fitted[places]]
        at_equal = at_equal_length(won[alike], longer[alike]) * len(alike) if len(alike) else 0.0
        return float(at_equal + won[others].sum()) / len(places)

    if len(set(won.tolist())) > 1:
        return bootstrap(rate, len(told), seed)
    alone = rate(np.arange(len(told))) if told else float("nan")
    return Interval(alone, None, None, len(told), SAME)  # resampling would claim certainty


def at_equal_length(won: NDArray[np.float64], longer: NDArray[np.float64]) -> float:
    """The win rate that a logistic regression on the length difference gives where there is none."""
    if not len(won):
        return float("nan")
    spread = float(np.sqrt(longer @ longer / len(longer)))
    x_N = longer / spread if spread else longer
    level, slope = 0.0, 0.0
    for _ in range(100):  # Newton's method, written out for two unknowns
        p_N = 1 / (1 + np.exp(-level - slope * x_N))
        error_N, weight_N = won - p_N, p_N * (1 - p_N)
        pull, pull_x = float(error_N.sum()) - RIDGE * level, float(error_N @ x_N) - RIDGE * slope
        weight_x_N = weight_N * x_N
        a, b, c = float(weight_N.sum()) + RIDGE, float(weight_x_N.sum()), float(weight_x_N @ x_N) + RIDGE
        step, step_x = (c * pull - b * pull_x) / (a * c - b * b), (a * pull_x - b * pull) / (a * c - b * b)
        level, slope = level + step, slope + step_x
        if max(abs(step), abs(step_x)) < 1e-6:
            break
    return float(1 / (1 + np.exp(-level)))


def _row(outcome: Outcome, verdicts: Sequence[str]) -> dict[str, object]:
    pair = outcome.pair
    return {
        "set": pair.set,
        "item": pair.item,
        "criterion": outcome.criterion,
        "winner": outcome.winner,
        "model_first": outcome.first,
        "base_first": outcome.second,
        "flipped": outcome.flipped,
        "why": outcome.why,
        "model_characters": len(pair.model),
        "base_characters": len(pair.base),
        "verdicts": list(verdicts),
    }
