"""A row of the prompt data set: a document to play on and the run's settings; which games it makes, and whose reply each call returns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from spy_env import ABSTAIN, UNREADABLE, Document, Game, RewardRules, Rules, Seat, Stage
from trainers.curriculum import Curriculum
from trainers.engines import Reply, Sampling
from trainers.prompt_budget import PromptBudget, deal_to_fit
from trainers.samples import trained_roles

VERSION = 1
TRAIN, EVAL = "train", "eval"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What is the same for every row of a run."""

    folder: str  # the run's: games, metrics and the director's states; every node must see it
    checkpoints: str  # the trainer's folder of them
    resume: bool  # go on from the last of them
    task: str
    rules: Rules
    start: Curriculum  # before the first iteration
    sampling: Mapping[Stage, Sampling]
    template_options: Mapping[str, Any]
    max_len: int  # prompt and reply in tokens
    batch_size: int  # training rows of an iteration
    samples: int  # calls for a training row
    eval_rows: int
    eval_samples: int  # calls for an evaluation row, any number
    seed: int
    deadline_s: float  # seconds that one reply may take; everything else that is waited for takes seconds


@dataclass(frozen=True, slots=True)
class Invitation:
    """To play on a document. ``seed`` names the row within its run; ``split`` is ``train`` or ``eval``."""

    document: Document
    seed: str
    split: str
    run: RunSettings

    @property
    def samples(self) -> int:
        """How many calls this row is executed with."""
        return self.run.samples if self.split == TRAIN else self.run.eval_samples


def to_json(invitation: Invitation) -> str:
    """The row's text."""
    run = invitation.run
    row = {
        "version": VERSION,
        "split": invitation.split,
        "seed": invitation.seed,
        "document": asdict(invitation.document),
        "run": {**{name: getattr(run, name) for name in _PLACES}, **settings_row(run)},
    }
    return json.dumps(row, ensure_ascii=False)


def settings_row(run: RunSettings) -> dict[str, Any]:
    """The settings that a run's games, averages and baselines depend on, as JSON has them; a resumed run keeps them."""
    plain = {name: getattr(run, name) for name in _PLAIN}
    return plain | {
        "rules": asdict(run.rules),
        "start": json.loads(run.start.to_json()),
        "sampling": {str(stage): asdict(sampling) for stage, sampling in run.sampling.items()},
        "template_options": dict(run.template_options),
    }


_PLACES = ("folder", "checkpoints", "resume", "deadline_s")  # may change when a run is resumed
_PLAIN = ("task", "max_len", "batch_size", "samples", "eval_rows", "eval_samples", "seed")


def from_json(text: str) -> Invitation:
    """What ``to_json`` wrote, exactly.

    Raises:
        ValueError: the text is no invitation of this version.
    """
    try:
        row = json.loads(text)
        version = row["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"not an invitation ({error!r}): {text[:80]!r}; prepare the prompt data set with spyrl openrlhf or spyrl verl, "
            "and hand its rows on as they are (no --data.apply_chat_template, no --data.input_template)"
        ) from error
    if version != VERSION:
        raise ValueError(
            f"an invitation of version {version!r}, and this spy-env reads {VERSION}; launch and nodes need the same spy-env"
        )
    said = row["run"]
    run = RunSettings(
        **{name: said[name] for name in (*_PLACES, *_PLAIN)},
        rules=Rules(**said["rules"]),
        start=Curriculum.from_json(json.dumps(said["start"])),
        sampling={Stage(stage): Sampling(**sampling) for stage, sampling in said["sampling"].items()},
        template_options=said["template_options"],
    )
    return Invitation(Document(**row["document"]), row["seed"], row["split"], run)


class Place(NamedTuple):
    """What a call returns: the reply of a seat in a stage of one of the games; it may not be trained."""

    game: int  # by its number in the list of games
    stage: Stage
    seat: Seat
    trained: bool


def deal_games(invitation: Invitation, iteration: int, stage: Stage | None, budget: PromptBudget) -> list[Game]:
    """The games of an invitation, each dealt anew; those of an evaluation are the same in every evaluation.

    A call is a player, so there are as many games as players fit (an evaluation's last game may have more players than
    calls). Where referees are trained, one game has a referee for every call.

    Raises:
        ValueError: the document can't be made to fit.
    """
    run = invitation.run
    rules, count = run.rules, -(-invitation.samples // run.rules.players)
    if invitation.split == EVAL:
        where = "eval"
    else:
        where = str(iteration)
        if stage is Stage.DETECTION and rules.voters == "referees":
            rules, count = replace(rules, referees=invitation.samples), 1
    games: list[Game] = []
    for i in range(count):
        seed = f"{run.seed}/{where}/{invitation.seed}/{i}"
        games.append(deal_to_fit(invitation.document, run.task, rules, seed, stage, budget))
        rules = replace(rules, document_words=games[-1].rules.document_words)  # so that the next needn't look for it
    return games


def places_of(games: Sequence[Game], stage: Stage | None, calls: int) -> list[Place]:
    """A place for every call. In detection a spy's call returns its vote or, where only civilians vote, its performance;
    neither is trained. Without a stage (evaluations) calls return performances.
    """
    places = [place for number, game in enumerate(games) for place in _places(number, game, stage)]
    return places[:calls]


def _places(number: int, game: Game, stage: Stage | None) -> list[Place]:
    if stage is not Stage.DETECTION:
        return [Place(number, Stage.PERFORMING, seat, True) for seat in game.players]
    roles = trained_roles(stage, game.rules.voters)
    votes = [Place(number, stage, voter, game.role(voter) in roles) for voter in game.voters]
    if game.rules.voters == "civilians":
        votes.append(Place(number, Stage.PERFORMING, game.spy, False))
    return votes


def reward_of(game: Game, place: Place, rules: RewardRules) -> float:
    """What the seat earned in the stage."""
    rewards = game.rewards(rules)
    return (rewards.performing if place.stage is Stage.PERFORMING else rewards.detection)[place.seat]


def logs_of(game: Game, seat: Seat, stage: Stage, earned: float, reply: Reply) -> dict[str, float]:
    """What OpenRLHF logs beside its own: the same keys for every sample, none of them OpenRLHF's.

    Hits, abstentions and unreadable votes are shares of the game's trained voters.
    """
    votes = game.votes()
    cast = [votes[voter] for voter in game.trained_voters]
    role = game.role(seat)
    return {
        "game/raw_reward": earned,
        "game/detection": float(stage is Stage.DETECTION),
        **{f"game/role_{name}": float(role == name) for name in ("spy", "civilian", "referee")},
        "game/hits": sum(vote == game.spy for vote in cast) / len(cast),
        "game/abstentions": sum(vote == ABSTAIN for vote in cast) / len(cast),
        "game/unreadable": sum(vote == UNREADABLE for vote in cast) / len(cast),
        "game/caught": float(game.caught),
        "game/truncated": float(reply.truncated),
    }
