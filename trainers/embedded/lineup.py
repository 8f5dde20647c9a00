"""Who plays which role, decided from the settings alone, and settings that ``spyrl train`` refuses.

Pure, so that a resumed run meets the opponents of one that was never stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random

from spy_env import Stage
from spy_env.seats import ROLES
from trainers.config import LOWEST_IN_VLLM, Config
from trainers.engines.players import KINDS, read_player
from trainers.samples import trained_roles
from trainers.settings import refuse

OPPONENTS = tuple(kind for kind in KINDS if kind != "human")
FIXED_OPPONENTS = tuple(kind for kind in OPPONENTS if kind != "past")
REFUSED = {  # settings that mean nothing on one device, and the way out
    "actor.num_nodes": "spyrl train uses one device; spyrl openrlhf trains on several",
    "actor.num_gpus_per_node": "spyrl train uses one device; spyrl openrlhf trains on several",
    "rollout.deadline_s": "it is for clusters, where replies come over a network; leave it out",
    "train.num_episodes": "it is OpenRLHF's; give the iterations with --train.iterations",
    "train.colocate_all": "one device holds everything anyway; leave it out",
    "train.async_enable": "iterations follow one another here; spyrl openrlhf can overlap them",
    "eval.n_samples_per_prompt": "each held-out document is one game here; leave it out",
    "eval.temperature": "held-out games are played at --rollout.temperature; leave it out",
    "vllm.num_engines": "one engine runs in the trainer's process; leave it out",
    "vllm.tensor_parallel_size": "one engine runs on the trainer's device; leave it out",
    "ds.ring_attn_size": "it needs several GPUs: spyrl openrlhf",
    "ds.tensor_parallel_size": "it needs several GPUs: spyrl openrlhf",
}
INITIAL = 0  # the "checkpoint" before training


def check(config: Config) -> None:
    """Refuse settings that ``spyrl train`` can't follow, alone or together.

    Raises:
        ValueError: with a flag, its value, and the way out.
    """
    refuse(config, REFUSED)
    if config.ds.param_dtype == "fp16":
        raise ValueError("--ds.param_dtype is 'fp16', in which small gradients vanish here; choose bf16, fp32 or auto")
    temperature = config.rollout.temperature
    if config.rollout.engine == "vllm" and temperature < LOWEST_IN_VLLM:
        raise ValueError(f"--rollout.temperature is {temperature}; vLLM samples at {LOWEST_IN_VLLM} where it is lower")
    if config.opponent_of:
        check_opponents(config.opponent_of, config.game.voters, config.algo.schedule)
    if config.algo.warm_start:
        learner = [role for role in ROLES if role not in config.opponent_of]
        if not trains(Stage.DETECTION, learner, config.game.voters):
            raise ValueError(
                f"--algo.warm_start is {config.algo.warm_start}, and opponents cast all votes that could be fitted; leave it "
                "out, or let the learner vote"
            )
    if config.eval.opponent:
        check_fixed(config.eval.opponent, config.eval.games)


def check_opponents(opponents: Mapping[str, str], voters: str, schedule: str) -> None:
    """Check the opponents by role; the learner's roles are left out.

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
                f"--algo.schedule {schedule} comes to it; choose --algo.schedule {left[0]}"
            )


def check_fixed(player: str, games: int) -> None:
    """Check the opponent of the evaluations.

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
    """Return whether a stage trains anything if the learner plays these roles."""
    return not trained_roles(stage, voters).isdisjoint(learner)


def pool_at(step: int, save_steps: int, size: int) -> tuple[int, ...]:
    """Return the iterations whose checkpoints iteration ``step`` may meet: the last ``size`` saved on schedule.

    Before the first of them, that is the initial model.
    """
    last = (step - 1) // save_steps
    return tuple(number * save_steps for number in range(max(0, last - size) + 1, last + 1)) or (INITIAL,)


def drawn_at(step: int, seed: int, save_steps: int, size: int) -> int:
    """Draw the one of the pool that iteration ``step`` meets."""
    return Random(f"{seed}/{step}/opponent").choice(pool_at(step, save_steps, size))
