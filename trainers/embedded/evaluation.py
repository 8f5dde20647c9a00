"""The same deals on documents never trained on, played before, during and after training."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from spy_env import Document, Game, read_games
from trainers.embedded.checkpoints import RunFolder
from trainers.config import Config
from trainers.embedded.matches import SELF_PLAY, file_of, measure_all, seatings_of
from trainers.engines import Engine
from trainers.metrics import Estimate
from trainers.prompt_budget import deal_to_fit
from trainers.rollout import Seating, play_games

Measured = Mapping[str, Estimate]
CURVES = "evaluations.jsonl"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The deals, one for each held-out document, and the seatings that they are played in, by kind of match."""

    config: Config
    folder: RunFolder
    dealt: Sequence[Game]
    seatings: Mapping[str, Seating]

    @classmethod
    def of(
        cls, config: Config, folder: RunFolder, documents: Sequence[Document], seating: Seating, opponent: Engine | None
    ) -> HeldOut:
        """Deal games whose prompts fit the learner's engine and the opponent's; the same for every policy."""
        seatings = seatings_of(seating, opponent)
        seated = list(seatings.values())[-1]  # with everybody who plays at any of them
        dealt = [
            deal_to_fit(document, config.game.task, config.rules, f"{config.train.seed}/eval/{i}", None, seated.budget)
            for i, document in enumerate(documents)
        ]
        return cls(config, folder, dealt, seatings)

    def evaluate(self, point: str) -> tuple[list[Game], Measured]:
        """Play the deals in every seating. Returns the games of self-play, and what all games say; nothing of no deals."""
        games = {kind: self._played(file_of(kind, point), seating) for kind, seating in self.seatings.items()}
        return games[SELF_PLAY], self._measured(games)

    def before(self, step: int) -> Measured:
        """What the deals say before training; they are read where ``step`` iterations of a resumed run have trained since.

        Raises:
            ValueError: they are to be read and aren't all there; the model of then is gone.
        """
        if step:
            return self._measured({kind: self._saved(file_of(kind, "before")) for kind in self.seatings})
        began = time.monotonic()
        _, measured = self.evaluate("before")
        self.folder.append("timings.jsonl", {"step": 0, "evaluate_s": time.monotonic() - began})
        return measured

    def _measured(self, games: Mapping[str, Sequence[Game]]) -> Measured:
        return measure_all(games, self.config.reward_rules) if self.dealt else {}

    def _played(self, name: str, seating: Seating) -> list[Game]:
        games = [played.game for played in play_games(self.dealt, seating)]
        self.folder.write_games(self.folder.games / name, games)
        return games

    def _saved(self, name: str) -> list[Game]:
        file = self.folder.games / name
        saved = list(read_games(file)) if file.exists() else []
        if len(saved) != len(self.dealt):
            raise ValueError(
                f"{file} holds {len(saved)} of the {len(self.dealt)} games played before training, and the model has been trained since; begin a new run in another --ckpt.output_dir, or without --eval.games"
            )
        return saved

    def record(self, step: int, measured: Measured) -> dict[str, float]:
        """Write a point of the curves, where curves are wanted, and return it as metrics.

        Once: a resumed run comes to its last again.
        """
        wanted = self.config.eval.opponent or self.config.eval.steps
        if not (wanted and measured) or step in self.folder.steps_of(CURVES):
            return {}
        self.folder.append(CURVES, curve_row(step, measured, self.config.eval.opponent))
        return {f"eval/{name}": estimate.value for name, estimate in measured.items()}


def curve_row(step: int, measured: Measured, opponent: str) -> dict[str, Any]:
    """A line of ``evaluations.jsonl``; with an opponent also its name and 95 % intervals, without ends of a single game."""
    values = {name: estimate.value for name, estimate in measured.items()}
    if not opponent:
        return {"step": step, **values}
    intervals = {
        name: [end if isfinite(end) else None for end in (estimate.low, estimate.high)]
        for name, estimate in measured.items()
    }
    return {"step": step, **values, "opponent": opponent, "intervals": intervals}


def comparison_lines(compared: Mapping[str, tuple[Estimate, Estimate]]) -> list[tuple[str, str, str, str]]:
    """The comparison as rows of text: measure, before, after, number of votes or games."""
    return [(name, str(before), str(after), str(after.n)) for name, (before, after) in compared.items()]
