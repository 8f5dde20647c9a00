"""Which of two contestants writes better: every pair in both orders, and a verdict that turns with the order is a tie.

Outcomes are pure functions of the two verdicts; only ``compare`` asks.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
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
RIDGE = 0.01  # ours: keeps a fit finite where lengths explain all outcomes; a hundredth of one pair's weight
SAME = "none, as all outcomes are the same"
SHARE = {MODEL: 1.0, TIE: 0.5, BASE: 0.0}
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
    """The texts of two contestants for the same request."""

    set: str
    item: str
    request: str
    model: str
    base: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pair came out by one criterion: MODEL, BASE, TIE, or None where the pair is left out."""

    pair: Pair
    criterion: str
    winner: str | None
    first: str | None = None  # whom the verdict names with the model's text first; None where it wasn't asked
    second: str | None = None  # and with the base's text first
    why: str = ""  # the pair is left out or wasn't asked

    @property
    def flipped(self) -> bool:
        """Whether both verdicts name the same place: one names the model, the other the base."""
        return {self.first, self.second} == {MODEL, BASE}


Verdict = Mapping[str, str] | str
"""``A``, ``B`` or ``TIE`` by criterion; or one of ``NO_VERDICT``."""


def compare(
    judge: Judge, pairs: Sequence[Pair], criteria: Mapping[str, str], seed: int, folder: Path, what: str = "pairs"
) -> list[Score]:
    """Return win, tie and flip rates by set and criterion (name: meaning); every outcome goes to ``pairs.jsonl``.

    Raises:
        CostCapError, UnreachableError: as ``Judge.ask``.
    """
    prompts = {
        i: [comparison(pair.request, *texts, criteria) for texts in ((pair.model, pair.base), (pair.base, pair.model))]
        for i, pair in enumerate(pairs)
        if settled(pair) is None
    }
    answers = iter(judge.ask([prompt for both in prompts.values() for prompt in both], what))
    verdicts = {i: [_verdict(next(answers), criteria) for _ in both] for i, both in prompts.items()}
    outcomes: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
    lines = []
    for criterion in criteria:
        for i, pair in enumerate(pairs):
            outcome = judged(pair, criterion, *verdicts[i]) if i in verdicts else unasked(pair, criterion)
            outcomes[pair.set, criterion].append(outcome)
            lines.append(json.dumps(_row(outcome, [judge.key(prompt) for prompt in prompts.get(i, ())])) + "\n")
    folder.mkdir(parents=True, exist_ok=True)
    disk.write_whole(folder / "pairs.jsonl", "".join(lines))
    sets = dict.fromkeys(pair.set for pair in pairs)
    keys = [(name, criterion) for name in sets for criterion in criteria]
    return [score for key in keys for score in scores(*key, outcomes[key], seed)]


def _verdict(answer: Answer, criteria: Mapping[str, str]) -> Verdict:
    return no_verdict(answer) if answer.failed else read_comparison(answer.text, criteria) or no_verdict(answer)


def settled(pair: Pair) -> tuple[str, str] | None:
    """Return the winner of a pair that needs no judge, and why: its texts are the same, or one is empty; else None."""
    model, base = pair.model.strip(), pair.base.strip()
    if model == base:
        return TIE, "the same text" if model else "both empty"
    if model and base:
        return None
    return (MODEL, f"empty ({BASE})") if model else (BASE, f"empty ({MODEL})")


def unasked(pair: Pair, criterion: str) -> Outcome:
    """Return the outcome of a pair that is settled without a judge."""
    winner, why = settled(pair) or (None, "")
    return Outcome(pair, criterion, winner, why=why)


def judged(pair: Pair, criterion: str, first: Verdict, second: Verdict) -> Outcome:
    """Return the outcome of both verdicts: ``first`` with the model's text as A, ``second`` with the model's text as B."""
    if isinstance(first, str) or isinstance(second, str):
        why = next(reason for reason in NO_VERDICT if reason in (first, second))
        return Outcome(pair, criterion, None, why=why)
    one = {"A": MODEL, "B": BASE, TIE: TIE}[first[criterion]]
    other = {"A": BASE, "B": MODEL, TIE: TIE}[second[criterion]]
    return Outcome(pair, criterion, one if one == other else TIE, one, other)


def scores(name: str, criterion: str, outcomes: Sequence[Outcome], seed: int) -> list[Score]:
    """Return the rates of one set's outcomes by one criterion."""
    decided = [outcome for outcome in outcomes if outcome.winner is not None]
    asked = [outcome for outcome in decided if outcome.first is not None]
    if not asked and len(decided) < len(outcomes):  # no verdict was read: pairs that need none can't stand in for them
        decided = []
    won = np.array([SHARE[outcome.winner or TIE] for outcome in decided])
    longer = np.array([len(outcome.pair.model) - len(outcome.pair.base) for outcome in decided], dtype=float)
    reasons = Counter(outcome.why for outcome in outcomes if outcome.why)
    counts = {"pairs": len(outcomes), "judged": len(asked), **reasons}
    lengths = {"model longer": int((longer > 0).sum()), "base longer": int((longer < 0).sum())}
    rates: dict[str, tuple[Interval, Mapping[str, int]]] = {
        "win rate": (item_share(won.tolist(), seed), counts),
        "length-controlled win rate": (_controlled(decided, won, longer, seed), {**counts, **lengths}),
    }
    for rate, winner in (("wins", MODEL), ("ties", TIE), ("losses", BASE)):
        rates[rate] = item_share([float(outcome.winner == winner) for outcome in decided], seed), {}
    rates["flips"] = item_share([float(outcome.flipped) for outcome in asked], seed), {}
    return [score_of(name, f"{rate}, {criterion}", AGAINST, interval, seen) for rate, (interval, seen) in rates.items()]


def _controlled(
    decided: Sequence[Outcome], won: NDArray[np.float64], longer: NDArray[np.float64], seed: int
) -> Interval:
    """Return the win rate at equal length. A pair with one empty text isn't fitted: its length would excuse the loss."""
    fitted = np.array([bool(one.pair.model.strip()) == bool(one.pair.base.strip()) for one in decided], dtype=bool)

    def rate(places: Places) -> float:
        alike, others = places[fitted[places]], places[~fitted[places]]
        at_equal = at_equal_length(won[alike], longer[alike]) * len(alike) if len(alike) else 0.0
        return float(at_equal + won[others].sum()) / len(places)

    if len(set(won.tolist())) > 1:
        return bootstrap(rate, len(decided), seed)
    value = rate(np.arange(len(decided))) if decided else float("nan")
    return Interval(value, None, None, len(decided), SAME)  # resampling would claim certainty


def at_equal_length(won: NDArray[np.float64], longer: NDArray[np.float64]) -> float:
    """Return the win rate that a logistic regression on the difference of lengths gives where there is none."""
    if not len(won):
        return float("nan")
    spread = float(np.sqrt(longer @ longer / len(longer)))
    x_2N = np.stack([np.ones_like(won), longer / spread if spread else longer])
    fit_2 = np.zeros(2)  # level and slope
    for _ in range(100):  # Newton's method
        p_N = 1 / (1 + np.exp(-fit_2 @ x_2N))
        gradient_2 = x_2N @ (won - p_N) - RIDGE * fit_2
        curvature_22 = (x_2N * (p_N * (1 - p_N))) @ x_2N.T + RIDGE * np.eye(2)
        step_2 = np.linalg.solve(curvature_22, gradient_2)
        fit_2 += step_2
        if np.abs(step_2).max() < 1e-6:
            break
    return float(1 / (1 + np.exp(-fit_2[0])))


def _row(outcome: Outcome, verdicts: list[str]) -> dict[str, object]:
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
        "verdicts": verdicts,
    }
