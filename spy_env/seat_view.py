"""Gymnasium's door: one seat of the game, the others played by functions from prompt to reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import gymnasium

from spy_env import spy_v0
from spy_env.players import Player, scripted_player
from spy_env.seats import Seat
from spy_env.spaces import FreeText

Observation = dict[str, str]


class SeatEnv(gymnasium.Env[Observation, str]):
    """A game as its ``seat`` sees it: one step to perform, one to vote.

    An episode is over when the seat has nothing left to do: after one step where it doesn't vote (a player under
    ``voters="referees"``, the spy under ``"civilians"``). The others' votes are then cast before ``step`` returns.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as the base class declares it

    def __init__(
        self,
        seat: Seat = "player_1",
        others: Player | Mapping[Seat, Player] | None = None,
        render_mode: str | None = None,
        **game: Any,
    ) -> None:
        """Sit at ``seat``. ``others`` play the other seats (default: scripted); ``game`` as for ``spy_v0.raw_env``.

        Raises:
            ValueError: there is no such seat, or a seat has no player.
        """
        self.table = spy_v0.raw_env(render_mode=render_mode, **game)
        self.render_mode = render_mode
        if seat not in self.table.possible_agents:
            raise ValueError(f"no seat {seat!r} in this game; choose one of {self.table.possible_agents}")
        self.seat = seat
        self.observation_space: Any = self.table.observation_space(seat)
        self.action_space: FreeText = self.table.action_space(seat)
        self._play = self._players(others if others is not None else scripted_player())

    def _players(self, others: Player | Mapping[Seat, Player]) -> Callable[[Seat, str], str]:
        if not isinstance(others, Mapping):
            return lambda seat, prompt: others(prompt)
        if missing := set(self.table.possible_agents) - set(others) - {self.seat}:
            raise ValueError(f"nobody plays {sorted(missing)}; give every other seat a player")
        return lambda seat, prompt: others[seat](prompt)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Deal a game and play up to this seat's first turn. Options as for ``spy_v0.raw_env.reset``."""
        super().reset(seed=seed)
        self.table.reset(seed=seed, options=options)
        self._others_play()
        return self.table.observe(self.seat), self.table.infos[self.seat]

    def step(self, action: str) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """Reply, and let the others play up to this seat's next turn or the end."""
        self.table.step(action)
        self._others_play()
        over = self.table.terminations[self.seat]
        reward = self.table.rewards[self.seat] if over else 0.0
        return self.table.observe(self.seat), reward, over, False, self.table.infos[self.seat]

    def _others_play(self) -> None:
        table = self.table
        while not all(table.terminations.values()):
            agent = table.agent_selection
            idle = table.infos[agent]["idle"]
            if agent == self.seat and not idle:
                return
            table.step("" if idle else self._play(agent, table.observe(agent)["prompt"]))

    def render(self) -> str | None:
        """Render the game for an onlooker."""
        return self.table.render()


gymnasium.register("spy_env/Seat-v0", entry_point="spy_env.seat_view:SeatEnv")
