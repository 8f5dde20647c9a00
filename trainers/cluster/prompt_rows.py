"""A row of the prompt data set: a document to play on and the run's settings; its games, and the reply that each call returns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from spy_env import ABSTAIN, UNREADABLE, Document, Game, RewardRules, Rules, Seat, Stage
from spy_env.seats import ROLES
from trainers.curriculum import Curriculum
from trainers.engines import Reply, Sampling
from trainers.prompt_budget import PromptBudget, deal_to_fit
from trainers.samples import trained_roles

VERSION = 1
TRAIN, EVAL = "train", "eval"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The part of a row that is the same for every row of a run."""

    folder: str  # the run's: games, metrics and the coordinator's states; every node must see it
    checkpoints: str  # the trainer's folder of checkpoints
    resume: bool  # go on from the last checkpoint
    task: str
    rules: Rules
    start: Curriculum  # before the first iteration
    sampling: Mapping[Stage, Sampling]
    template_options: Mapping[str, Any]
    max_len: int  # prompt and reply in tokens
    batch_size: int  # training rows per iteration
    samples: int  # calls per training row
    eval_rows: int
    eval_samples: int  # calls per evaluation row, any number
    seed: int
    deadline_s: float  # seconds that one reply may take


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A document to play on. ``seed`` names the row within its run; ``split`` is ``train`` or ``eval``."""

    document: Document
    seed: str
    split: str
    run: RunSettings

    @property
    def samples(self) -> int:
        """The number of calls that play this row."""
        return self.run.samples if self.split == TRAIN else self.run.eval_samples


_MOVABLE = ("folder", "checkpoints", "resume", "deadline_s")  # may change when a run is resumed
_PLAIN = ("task", "max_len", "batch_size", "samples", "eval_rows", "eval_samples", "seed")


def to_json(row: PromptRow) -> str:
    """Return the row's text, which the trainer takes for a prompt."""
    run = {name: getattr(row.run, name) for name in _MOVABLE} | settings_row(row.run)
    fields = {
        "version": VERSION,
        "split": row.split,
        "seed": row.seed,
        "document": asdict(row.document),
        "run": run,
    }
    return json.dumps(fields, ensure_ascii=False)


def settings_row(run: RunSettings) -> dict[str, Any]:
    """Return the settings that a run's games, averages and baselines depend on, as JSON holds them; a resumed run keeps them."""
    plain = {name: getattr(run, name) for name in _PLAIN}
    return plain | {
        "rules": asdict(run.rules),
        "start": json.loads(run.start.to_json()),
        "sampling": {str(stage): asdict(sampling) for stage, sampling in run.sampling.items()},
        "template_options": dict(run.template_options),
    }


def from_json(text: str) -> PromptRow:
    """Read what ``to_json`` wrote, exactly.

    Raises:
        ValueError: the text is no row of this version.
    """
    try:
        fields = json.loads(text)
        version = fields["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"this prompt is no row to play on ({error!r}): {text[:80]!r}; prepare the prompt data set with spyrl openrlhf or "
            "spyrl verl, and hand its rows on as they are (no --data.apply_chat_template, no --data.input_template)"
        ) from error
    if version != VERSION:
        raise ValueError(
            f"a prompt row of version {version!r}, and this spy-env reads {VERSION}; launch and nodes need the same spy-env"
        )
    run = fields["run"]
    settings = RunSettings(
        **{name: run[name] for name in (*_MOVABLE, *_PLAIN)},
        rules=Rules(**run["rules"]),
        start=Curriculum.from_json(json.dumps(run["start"])),
        sampling={Stage(stage): Sampling(**sampling) for stage, sampling in run["sampling"].items()},
        template_options=run["template_options"],
    )
    return PromptRow(Document(**fields["document"]), fields["seed"], fields["split"], settings)


class Slot(NamedTuple):
    """Where the reply of a call comes from: a seat in a stage of one of the row's games. It may not be trained."""

    game: int  # its number in the list of games
    stage: Stage
    seat: Seat
    trained: bool


def deal_games(row: PromptRow, iteration: int, stage: Stage | None, budget: PromptBudget) -> list[Game]:
    """Deal the games of a row anew; an evaluation row deals the same ones every time.

    A call is a player, so there are as many games as players fit (an evaluation's last game may have more players than
    calls). Where referees are trained, one game has a referee for every call.

    Raises:
        ValueError: the document can't be made to fit.
    """
    run = row.run
    rules, count = run.rules, -(-row.samples // run.rules.players)
    if row.split == TRAIN and stage is Stage.DETECTION and rules.voters == "referees":
        rules, count = replace(rules, referees=row.samples), 1
    occasion = "eval" if row.split == EVAL else str(iteration)
    games: list[Game] = []
    for i in range(count):
        seed = f"{run.seed}/{occasion}/{row.seed}/{i}"
        games.append(deal_to_fit(row.document, run.task, rules, seed, stage, budget))
        rules = replace(rules, document_words=games[-1].rules.document_words)  # so that the next needn't look for it
    return games


def slots_of(games: Sequence[Game], stage: Stage | None, calls: int) -> list[Slot]:
    """Return a slot for every call. In detection a spy's call returns its vote or, where only civilians vote, its
    performance; neither is trained. Without a stage (evaluations) calls return performances.
    """
    slots = [slot for number, game in enumerate(games) for slot in _slots(number, game, stage)]
    return slots[:calls]


def _slots(number: int, game: Game, stage: Stage | None) -> list[Slot]:
    if stage is not Stage.DETECTION:
        return [Slot(number, Stage.PERFORMING, seat, True) for seat in game.players]
    roles = trained_roles(stage, game.rules.voters)
    votes = [Slot(number, stage, voter, game.role(voter) in roles) for voter in game.voters]
    if game.rules.voters == "civilians":
        votes.append(Slot(number, Stage.PERFORMING, game.spy, False))
    return votes


def reward_of(game: Game, slot: Slot, rules: RewardRules) -> float:
    """Return the seat's reward in the stage."""
    rewards = game.rewards(rules)
    return (rewards.performing if slot.stage is Stage.PERFORMING else rewards.detection)[slot.seat]


def hits_of(game: Game) -> float:
    """Return the share of the trained voters who found the spy."""
    return _share_of(game, game.spy)


def logs_of(game: Game, slot: Slot, reward: float, reply: Reply) -> dict[str, float]:
    """Return numbers for the trainer's trackers: the same keys for every sample, and none that OpenRLHF or verl uses.

    Hits, abstentions and unreadable votes are shares of the game's trained voters.
    """
    role = game.role(slot.seat)
    return {
        "game/raw_reward": reward,
        "game/detection": float(slot.stage is Stage.DETECTION),
        **{f"game/role_{name}": float(role == name) for name in ROLES},
        "game/hits": hits_of(game),
        "game/abstentions": _share_of(game, ABSTAIN),
        "game/unreadable": _share_of(game, UNREADABLE),
        "game/caught": float(game.caught),
        "game/truncated": float(reply.truncated),
    }


def _share_of(game: Game, vote: str) -> float:
    votes = game.votes()
    return sum(votes[voter] == vote for voter in game.trained_voters) / len(game.trained_voters)
