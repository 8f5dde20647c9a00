"""Who plays what, decided from the config alone: the learner's roles, the stages that they leave to train, and which
checkpoint a ``past`` opponent is. Pure, so that a resumed run meets the opponents of one that was never stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random

from spy_env import Stage
from trainers.engines.players import KINDS, read_player
from trainers.samples import ROLES, trained_roles

OPPONENTS = tuple(kind for kind in KINDS if kind != "human")
FIXED_OPPONENTS = tuple(kind for kind in OPPONENTS if kind != "past")
INITIAL = 0  # the iteration after which the model is as it was before training


def check_opponents(opponents: Mapping[str, str], voters: str, schedule: str) -> None:
    """``opponents`` by role, without the learner's roles.

    Raises:
        ValueError: no such player, a role that doesn't take part, or a stage comes that would train nothing.
    """
    for role, player in opponents.items():
        try:
            read_player(player, OPPONENTS)
        except ValueError as error:
            raise ValueError(f"--opponents.{role}: {error}") from error
    if "referee" in opponents and voters != "referees":
        raise ValueError(
            f"--opponents.referee is {opponents['referee']!r}, and with --game.voters {voters} there are no referees; "
            "leave it empty, or choose --game.voters referees"
        )
    learner = [role for role in ROLES if role not in opponents]
    left = [stage for stage in (Stage.DETECTION, Stage.PERFORMING) if trains(stage, learner, voters)]
    if not left:
        raise ValueError(
            f"opponents play {' and '.join(opponents)}, and with --game.voters {voters} nothing is left to train; leave "
            f"--opponents.{next(iter(opponents))} empty"
        )
    for stage in (Stage.DETECTION, Stage.PERFORMING):
        if stage not in left and schedule != left[0]:
            given = " and ".join(f"--opponents.{role} {player}" for role, player in opponents.items())
            raise ValueError(
                f"with {given} and --game.voters {voters} the learner says nothing that {stage} trains, and "
                f"--game.schedule {schedule} comes to it; choose --game.schedule {left[0]}"
            )


def check_fixed(player: str, games: int) -> None:
    """The opponent of the evaluations.

    Raises:
        ValueError: it isn't always the same, or there are no games to play.
    """
    try:
        read_player(player, FIXED_OPPONENTS)
    except ValueError as error:
        why = "it changes, and a curve needs one that doesn't; " if player == "past" else ""
        raise ValueError(f"--eval.opponent: {why}{error}") from error
    if not games:
        raise ValueError(f"--eval.opponent is {player!r}, and --eval.games 0 leaves no games; give some")


def trains(stage: Stage, learner: Collection[str], voters: str) -> bool:
    """Whether a stage trains anything where the learner plays these roles."""
    return not trained_roles(stage, voters).isdisjoint(learner)


def pool_at(step: int, save_steps: int, size: int) -> tuple[int, ...]:
    """The iterations whose checkpoints iteration ``step`` may meet: the last ``size`` that were saved on schedule.

    Before the first of them it is the initial model's.
    """
    last = (step - 1) // save_steps
    return tuple(number * save_steps for number in range(max(0, last - size) + 1, last + 1)) or (INITIAL,)


def drawn_at(step: int, seed: int, save_steps: int, size: int) -> int:
    """The one of the pool that iteration ``step`` meets."""
    return Random(f"{seed}/{step}/opponent").choice(pool_at(step, save_steps, size))


def kept_for_pool(players: Collection[str], step: int, save_steps: int, size: int) -> tuple[int, ...]:
    """The checkpoints that iterations after ``step`` may still meet, however few are to be kept."""
    return pool_at(step + 1, save_steps, size) if "past" in players else ()
