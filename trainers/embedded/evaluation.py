"""The same deals on documents never trained on, played before, during and after training: by the learner, and against an opponent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from spy_env import Game, RewardRules, read_games
from spy_env.seats import ROLES
from trainers.embedded.checkpoints import RunFolder
from trainers.engines import Engine
from trainers.metrics import Estimate, average, measure, share
from trainers.rollout import SeatPolicies, rollout

SELF_PLAY, SPY, CIVILIANS = "self-play", "spy", "civilians"
SIDES = {SPY: ("spy",), CIVILIANS: ("civilian", "referee")}  # the learner's roles


def matches_of(seats: SeatPolicies, opponent: Engine | None) -> dict[str, SeatPolicies]:
    """Return who sits where in self-play and, with an opponent, in a match on either side of it."""
    if opponent is None:
        return {SELF_PLAY: seats}
    against = {
        side: replace(seats, others=dict.fromkeys([role for role in ROLES if role not in learner], opponent))
        for side, learner in SIDES.items()
    }
    return {SELF_PLAY: seats, **against}


def file_of(kind: str, point: str) -> str:
    """Name the file of a match's games; ``point`` is ``before``, ``after`` or an iteration."""
    return f"eval_{point}.jsonl" if kind == SELF_PLAY else f"eval_{kind}_{point}.jsonl"


def measure_all(games: Mapping[str, Sequence[Game]], rules: RewardRules) -> dict[str, Estimate]:
    """Measure the games of all matches: self-play's measures, and the learner's against the opponent."""
    measured = measure(games[SELF_PLAY], rules)
    return measured | (measure_against(games[SPY], games[CIVILIANS], rules) if SPY in games else {})


def measure_against(as_spy: Sequence[Game], as_civilians: Sequence[Game], rules: RewardRules) -> dict[str, Estimate]:
    """Measure the learner's spy against the opponent's civilians, and its civilians against the opponent's spy.

    Over both sides of a deal the learner earns its spy's reward plus its civilians', which is the opposite of the
    opponent's spy's: 0 in the mean if both play alike.
    """
    spy, civilians = measure(as_spy, rules), measure(as_civilians, rules)
    earned = [[game.rewards(rules).performing[game.spy] for game in games] for games in (as_spy, as_civilians)]
    return {
        "learner spy: votes received": average([game.tally().received[game.spy] for game in as_spy]),
        "learner spy: not caught": share([not game.caught for game in as_spy], [1] * len(as_spy)),
        "learner spy: performing reward": spy["performing reward, spy"],
        "learner civilians: performing reward": civilians["performing reward, civilian"],
        "learner civilians: detection accuracy": civilians["detection accuracy"],
        "learner on both sides: performing reward": average(
            [as_spy - against for as_spy, against in zip(*earned, strict=True)]
        ),
    }


Measured = Mapping[str, Estimate]
CURVES = "evaluations.jsonl"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The deals, one per held-out document, and the seats of each match in which they are played.

    ``curves``: whether evaluations are written to ``CURVES``; ``opponent`` names who plays against the learner, if anybody.
    """

    folder: RunFolder
    rewards: RewardRules
    deals: Sequence[Game]
    matches: Mapping[str, SeatPolicies]
    curves: bool
    opponent: str

    def evaluate(self, point: str) -> tuple[list[Game], Measured]:
        """Play the deals in every match. Return the games of self-play, and the measures of all; none without deals."""
        games = {kind: self._played(file_of(kind, point), seats) for kind, seats in self.matches.items()}
        return games[SELF_PLAY], self._measured(games)

    def before(self, step: int) -> Measured:
        """Measure the deals before training, or read their games if a resumed run has trained ``step`` iterations since.

        Raises:
            ValueError: games to be read are missing, and the model that played them is gone.
        """
        if step:
            return self._measured({kind: self._saved(file_of(kind, "before")) for kind in self.matches})
        began = time.monotonic()
        _, measured = self.evaluate("before")
        self.folder.append("timings.jsonl", {"step": 0, "evaluate_s": time.monotonic() - began})
        return measured

    def games_before(self) -> list[Game]:
        """Return the games of self-play before training."""
        return self._saved(file_of(SELF_PLAY, "before")) if self.deals else []

    def _measured(self, games: Mapping[str, Sequence[Game]]) -> Measured:
        return measure_all(games, self.rewards) if self.deals else {}

    def _played(self, name: str, seats: SeatPolicies) -> list[Game]:
        games = [played.game for played in rollout(self.deals, seats)]
        self.folder.write_games(self.folder.games / name, games)
        return games

    def _saved(self, name: str) -> list[Game]:
        file = self.folder.games / name
        saved = list(read_games(file)) if file.exists() else []
        if len(saved) != len(self.deals):
            raise ValueError(
                f"{file} holds {len(saved)} of the {len(self.deals)} games played before training, and the model has been trained since; begin a new run in another --ckpt.output_dir, or without --eval.games"
            )
        return saved

    def record(self, step: int, measured: Measured) -> dict[str, float]:
        """Write a point of the curves, if curves are kept, and return it as metrics.

        Each point is written once: a resumed run reaches its last one again.
        """
        if not (self.curves and measured) or step in self.folder.steps_of(CURVES):
            return {}
        self.folder.append(CURVES, curve_row(step, measured, self.opponent))
        return {f"eval/{name}": estimate.value for name, estimate in measured.items()}


def curve_row(step: int, measured: Measured, opponent: str) -> dict[str, Any]:
    """Return a line of ``evaluations.jsonl``: with an opponent also its name, and 95 % intervals (null if infinite)."""
    values = {name: estimate.value for name, estimate in measured.items()}
    if not opponent:
        return {"step": step, **values}
    intervals = {
        name: [end if isfinite(end) else None for end in (estimate.low, estimate.high)]
        for name, estimate in measured.items()
    }
    return {"step": step, **values, "opponent": opponent, "intervals": intervals}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Held-out games before and after training: measures of each, and mean changes paired by deal."""

    measures: Mapping[str, tuple[Estimate, Estimate]]
    changes: Mapping[str, Estimate]

    @property
    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Rows of text: measure, before, after, change paired by deal (empty where it isn't taken), number of votes or games."""
        return [
            (name, str(before), str(after), str(self.changes.get(name, "")), str(after.n))
            for name, (before, after) in self.measures.items()
        ]

    @property
    def changed(self) -> list[tuple[str, str, str, str]]:
        """Rows of text for the last screen: measure, before, after, change. Against an opponent there are intervals instead."""
        against = [
            (name, str(before), str(after), "")
            for name, (before, after) in self.measures.items()
            if name.startswith("learner")
        ]
        return [
            (
                name,
                f"{before.value:z.2f}",
                f"{after.value:z.2f}",
                f"{change.value:+z.2f} [{change.low:+z.2f}, {change.high:+z.2f}]",
            )
            for name, change in self.changes.items()
            for before, after in [self.measures[name]]
        ] + against

    @property
    def sentence(self) -> str:
        """What changed, of ``TOLD``, by more than chance allows (95 %, paired by deal)."""
        clear = {name: self.changes[name] for name in TOLD if name in self.changes}
        told = [
            f"{TOLD[name]} {'rose' if change.value > 0 else 'fell'} from {before.value:.2f} to {after.value:.2f}"
            for name, change in clear.items()
            if change.low > 0 or change.high < 0
            for before, after in [self.measures[name]]
        ]
        return f"On documents never trained on, {', and '.join(told)}." if told else NOTHING


TOLD = {  # measures of which the last screen says whether they changed
    "overlap with the document, civilian": "the share of a civilian's words that the document has",
    "hidden words said, civilian": "the share of the words hidden from the spy that a civilian says",
    "detection accuracy": "the share of right votes",
}
NOTHING = "Nothing that this run can show changed by more than chance on documents never trained on."
