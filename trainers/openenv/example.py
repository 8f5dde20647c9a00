"""Play one game at a seat of a server: ``python -m trainers.openenv.example http://127.0.0.1:8000``.

Where a model would stand, the scripted player does.
"""

from __future__ import annotations

import sys

from spy_env.players import scripted_player
from trainers.openenv.client import SpyEnv
from trainers.openenv.models import SpyAction


def main(url: str, seed: int = 0) -> None:
    """Connect, play to the end, and say what came of it."""
    player = scripted_player()
    with SpyEnv(url).sync() as seat:
        result = seat.reset(seed=seed, seat="player_2", rules={"players": 4}, opponents={"civilian": "random"})
        while not result.done:
            reply = player(result.observation.prompt)
            print(f"{result.observation.stage}: {reply[:100]!r}")
            result = seat.step(SpyAction(text=reply))
        told = result.observation
        print(f"{told.seat}, the {told.role}, voted for {told.vote}: reward {result.reward:+.3f}")
        print(f"  performing {told.performing_reward:+.3f}, detection {told.detection_reward:+.3f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
