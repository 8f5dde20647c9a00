"""Diagnostics while training: the last games looked at after each iteration, and a warning said once where one is due.

The games are read from the run's folder, which a resumed run shares with one that was never stopped: nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spy_env import Game, read_games
from spy_env.diagnostics import diagnose
from spy_env.diagnostics.shortcuts import LEVEL
from trainers.embedded.checkpoints import RunFolder
from trainers.embedded.config import Config

GAMES = 64  # that are looked at: enough for a strong sign, and a bounded cost; our choice


class Watch:
    """Looks at the games of a run."""

    def __init__(self, config: Config, folder: RunFolder, say: Callable[[str], None]) -> None:
        """``say`` takes warnings."""
        self._folder, self._say = folder, say
        wanted = -(-GAMES // config.games_per_iteration)
        self._iterations = min(
            wanted, config.ckpt.games_max_num or wanted
        )  # others may be gone in one run and not in another
        looks = max(1, config.train.iterations // self._iterations)
        self._level = LEVEL / looks  # so that false alarms stay within LEVEL over the whole run
        self._said: set[str] = set()

    def after(self, step: int, games: Sequence[Game]) -> dict[str, float]:
        """The metrics of the last games, those of iteration ``step`` included.

        Warnings are looked for whenever all the games are new, since each look is another chance of a false alarm.
        """
        files = [self._folder.games_of(past) for past in range(max(1, step - self._iterations + 1), step)]
        seen = [game for file in files if file.exists() for game in read_games(file)] + list(games)
        found = diagnose(seen[-GAMES:], self._level, resamples=0)
        if step % self._iterations == 0:
            for name, text in found.alarms.items():
                if name not in self._said:
                    self._said.add(name)
                    self._say(f"warning {name}, iterations {step - self._iterations + 1} to {step}: {text}")
        return found.metrics
