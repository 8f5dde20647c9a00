"""Diagnostics while training: the last games looked at after each iteration, and a warning said once where one is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spy_env import Game
from spy_env.diagnostics import diagnose
from spy_env.diagnostics.shortcuts import LEVEL
from trainers.config import Config

GAMES = 64  # that are looked at: enough for a strong sign, and a bounded cost; our choice


def last_games(before: Sequence[Game], new: Sequence[Game]) -> tuple[Game, ...]:
    """What is looked at after an iteration. It belongs to a run's progress, since files of games may be removed."""
    return (*before, *new)[-GAMES:]


class Watch:
    """Looks at the games of a run. Keeps nothing but which warnings were said."""

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        """``say`` takes warnings."""
        self._say = say
        new = -(-GAMES // config.games_per_iteration)  # after so many iterations all games are new
        self._iterations = min(new, config.train.iterations)  # a short run is looked at once, at its end
        looks = max(1, config.train.iterations // self._iterations)
        self._level = LEVEL / looks  # so that false alarms stay within LEVEL over the whole run
        self._said: set[str] = set()

    def after(self, step: int, games: Sequence[Game]) -> dict[str, float]:
        """The metrics of the last games, those of iteration ``step`` included.

        Warnings are looked for whenever all the games are new, since each look is another chance of a false alarm.
        """
        found = diagnose(games, self._level, resamples=0)
        if step % self._iterations == 0:
            for name, text in found.alarms.items():
                if name not in self._said:
                    self._said.add(name)
                    self._say(f"warning {name}, iterations {step - self._iterations + 1} to {step}: {text}")
        return found.metrics
