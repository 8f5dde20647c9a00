"""Which stage is trained, and the advantages: an immutable record of schedule, averages, baselines and iteration.

The one home of this state. A driver asks ``stages`` before it generates, ``advantages`` when the games are over, and
goes on with ``after``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import log
from random import Random

from spy_env import ABSTAIN, STAGES, Game, RewardRules, Seat, Stage
from spy_env.advantages import baseline_key, detection_advantages, performing_advantages
from spy_env.ranges import check_ranges, choice, ranged

SCHEDULES = ("hysteresis", "cycle", "detection", "performing", "joint")
Key = tuple[str, Seat]
"""Names a sample within its stage: the game's seed and the seat."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the trained stage changes. Thresholds are SpyRL's (Eq 11, 12); ``patience`` and ``cycle`` are our choice.

    Attributes:
        schedule: "hysteresis", "cycle", one stage alone ("detection", "performing"), or "joint" (both at once, an ablation).
        cycle: iterations of detection, then of performing, under "cycle".
        accuracy_enough: from detection to performing at or above this accuracy ...
        abstention_low: ... with abstentions at or below this share.
        error_high: from performing to detection at or above this error rate ...
        abstention_high: ... or this share of abstentions.
        entropy_low: detection also ends below this entropy of recent votes, in nats: voters who all name one number, or all
            abstain, have votes without gradient. Our choice: 0.1 is about 98 % of votes alike.
        k_min: iterations that a stage lasts at least.
        patience: iterations that a stage lasts at most; the switch is then counted as forced.
        rho: decay of the running averages.

    Raises:
        ValueError: a value that no schedule can have.
    """

    schedule: str = choice(*SCHEDULES)
    cycle: tuple[int, int] = ranged((5, 5), least=1, hint="or choose one stage alone as schedule")
    accuracy_enough: float = ranged(0.9, least=0)
    abstention_low: float = ranged(0.1, least=0)
    error_high: float = ranged(0.4, least=0)
    abstention_high: float = ranged(0.5, least=0)
    entropy_low: float = ranged(0.1, least=0)
    k_min: int = ranged(5, least=1)
    patience: int = ranged(20, least=1)
    rho: float = ranged(0.95, least=0, below=1)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.k_min > self.patience:
            raise ValueError(f"k_min is {self.k_min} and patience {self.patience}; 1 <= k_min <= patience must hold")


@dataclass(frozen=True, slots=True)
class Average:
    """An unbiased exponential moving average: only values seen have weight. Equal values give exactly that value."""

    value: float = 0.0  # 0 before the first
    weight: float = 0.0

    def after(self, value: float, rho: float) -> Average:
        """Return the average with one more value."""
        weight = rho * self.weight + 1 - rho
        return Average(self.value + (1 - rho) / weight * (value - self.value), weight)


@dataclass(frozen=True, slots=True)
class Curriculum:
    """The settings of the algorithm, and the state of a run so far."""

    schedule: Schedule = field(default_factory=Schedule)
    rewards: RewardRules = field(default_factory=RewardRules)
    rae: bool = True  # subtract role baselines from performing rewards
    alpha: float = 0.9  # of the role baselines
    normalise_performing: bool = False  # divide a game's performing advantages by their std (an ablation)
    shuffle_seed: int | None = (
        None  # deal each stage's advantages out at random by this seed (the control); None: don't
    )
    iteration: int = 0
    stage: Stage = Stage.DETECTION  # of the coming iteration; without meaning under "joint"
    since: int = 0  # iterations already spent in this stage
    forced: int = 0  # switches because patience ran out, or because votes were saturated
    accuracy: Average = Average()
    abstention: Average = Average()
    cast: Mapping[str, float] = field(
        default_factory=dict
    )  # decayed shares of votes: by number on the ballot, N/A, unreadable
    baselines: Mapping[str, float] = field(default_factory=dict)  # by task, number of players and role

    @classmethod
    def start(
        cls,
        schedule: Schedule,
        rewards: RewardRules,
        rae: bool = True,
        alpha: float = 0.9,
        normalise_performing: bool = False,
        shuffle_seed: int | None = None,
    ) -> Curriculum:
        """Return the state before the first iteration: detection comes first, unless performing alone is trained."""
        first = Stage.PERFORMING if schedule.schedule == "performing" else Stage.DETECTION
        return cls(schedule, rewards, rae, alpha, normalise_performing, shuffle_seed, stage=first)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that the coming iteration trains."""
        return STAGES if self.schedule.schedule == "joint" else (self.stage,)

    @property
    def trained(self) -> Stage | None:
        """The stage that games of the coming iteration record as trained; None if both are."""
        return None if self.schedule.schedule == "joint" else self.stage

    def advantages(self, games: Sequence[Game], stage: Stage, roles: Collection[str] | None = None) -> dict[Key, float]:
        """Return the advantage of every trained reply of a stage, by game and seat. Baselines are read, not moved.

        They are computed over all players of a game; given ``roles``, the learner's, the others' are left out.
        """
        of_game = self._performing_advantages if stage is Stage.PERFORMING else self._detection_advantages
        earned = {
            (game.seed, seat): value
            for game in games
            for seat, value in of_game(game).items()
            if roles is None or game.role(seat) in roles
        }
        if self.shuffle_seed is None:
            return earned
        return dealt_out(earned, Random(f"{self.shuffle_seed}/{self.iteration}/{stage}/shuffle"))

    def _performing_advantages(self, game: Game) -> dict[Seat, float]:
        baselines = self.baselines if self.rae else {}
        return performing_advantages(game, self.rewards, baselines, self.normalise_performing)

    def _detection_advantages(self, game: Game) -> dict[Seat, float]:
        return detection_advantages(game, self.rewards)

    def after(self, games: Sequence[Game]) -> Curriculum:
        """Return the state after an iteration: averages and baselines move once, in both stages, and the stage may change."""
        votes = [(vote, game.spy) for game in games for seat, vote in game.votes().items() if seat != game.spy]
        right = sum(vote == spy for vote, spy in votes) / len(votes)
        abstained = sum(vote == ABSTAIN for vote, _ in votes) / len(votes)
        cast = votes_cast(games)
        moved = replace(
            self,
            iteration=self.iteration + 1,
            since=self.since + 1,
            accuracy=self.accuracy.after(right, self.schedule.rho),
            abstention=self.abstention.after(abstained, self.schedule.rho),
            cast={
                key: self.schedule.rho * self.cast.get(key, 0.0) + cast[key] / cast.total()
                for key in sorted({**self.cast, **cast})
            },
            baselines=self._moved_baselines(games),
        )
        return moved._next_stage()

    def _moved_baselines(self, games: Sequence[Game]) -> dict[str, float]:
        """b <- alpha b + (1 - alpha) mean r, over the batch's games with a readable vote (SpyRL Eq 9)."""
        earned: dict[str, list[float]] = {}
        for game in games:
            if game.readable:
                for seat, reward in game.rewards(self.rewards).performing.items():
                    earned.setdefault(baseline_key(game, game.role(seat)), []).append(reward)
        moved = dict(self.baselines)
        for key, rewards in sorted(earned.items()):
            moved[key] = self.alpha * moved.get(key, 0.0) + (1 - self.alpha) * sum(rewards) / len(rewards)
        return moved

    def _next_stage(self) -> Curriculum:
        wanted, forced = self._due()
        if not wanted:
            return self
        other = Stage.PERFORMING if self.stage is Stage.DETECTION else Stage.DETECTION
        return replace(self, stage=other, since=0, forced=self.forced + forced)

    def _due(self) -> tuple[bool, bool]:
        """Return whether the stage changes now, and whether only because patience ran out."""
        schedule = self.schedule
        if schedule.schedule == "cycle":
            due = self.since >= schedule.cycle[self.stage is Stage.PERFORMING]
            return due or self.saturated, not due
        if schedule.schedule != "hysteresis" or self.since < schedule.k_min:
            return False, False
        accuracy, abstention = self.accuracy.value, self.abstention.value
        if self.stage is Stage.DETECTION:
            earned = accuracy >= schedule.accuracy_enough and abstention <= schedule.abstention_low
        else:
            earned = 1 - accuracy >= schedule.error_high or abstention >= schedule.abstention_high
        return earned or self.saturated or self.since >= schedule.patience, not earned

    @property
    def saturated(self) -> bool:
        """Whether detection is trained and voters nearly always say the same, so that it can't learn any more."""
        trains = self.stage is Stage.DETECTION and self.since >= self.schedule.k_min
        return trains and self.entropy < self.schedule.entropy_low

    @property
    def entropy(self) -> float:
        """The entropy of recent votes in nats: of the numbers on ballots, abstentions and unreadable replies."""
        return entropy_of(self.cast)

    def to_json(self) -> str:
        """Return the whole record as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Curriculum:
        """Read the record that ``to_json`` wrote, exactly."""
        row = json.loads(text)
        schedule = Schedule(**{**row["schedule"], "cycle": tuple(row["schedule"]["cycle"])})
        return cls(
            **{
                **row,
                "schedule": schedule,
                "rewards": RewardRules(**row["rewards"]),
                "stage": Stage(row["stage"]),
                "accuracy": Average(**row["accuracy"]),
                "abstention": Average(**row["abstention"]),
            }
        )


def votes_cast(games: Sequence[Game]) -> Counter[str]:
    """Count the trained voters' votes by the number on the ballot, ``ABSTAIN`` or ``UNREADABLE``."""
    cast: Counter[str] = Counter()
    for game in games:
        numbers, votes = game.numbers(), game.votes()
        cast.update(str(numbers.get(voter, votes[voter])) for voter in game.trained_voters)
    return cast


def entropy_of(counts: Mapping[str, float]) -> float:
    """Return the entropy in nats of a distribution, given as counts."""
    total = sum(counts.values())
    return -sum(count / total * log(count / total) for count in counts.values() if count)


def dealt_out(earned: Mapping[Key, float], rng: Random) -> dict[Key, float]:
    """Deal the same values out to the samples at random, whatever the order of the games in the batch."""
    keys = sorted(earned)
    values = [earned[key] for key in keys]
    rng.shuffle(values)
    dealt = dict(zip(keys, values, strict=True))
    return {key: dealt[key] for key in earned}
