"""The immutable record of a game: its rules, the deal, the raw replies; and what follows from them.

Chance is spent once, in ``deal``. Everything else here is a pure function of the replies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import NamedTuple

from spy_env.ballot import ABSTAIN, UNREADABLE, Vote, after_thinking, parse_vote
from spy_env.documents import PLAYABLE_UNITS, Document, shorten, units_found
from spy_env.masking import Span, choose_spans, operator_named
from spy_env.ranges import check_ranges, choice, ranged
from spy_env.rewards import RewardRules, Tally, count_votes, detection_rewards, performing_rewards
from spy_env.seats import Seat, player_seats, referee_seats
from spy_env.tasks import Task, load_task

VOTERS = ("all", "civilians", "referees")


class Stage(StrEnum):
    """Where a game stands: first all perform, then the voters vote."""

    PERFORMING = "performing"
    DETECTION = "detection"
    OVER = "over"


STAGES = (Stage.PERFORMING, Stage.DETECTION)  # those that are played, in order


@dataclass(frozen=True, slots=True)
class Rules:
    """How a game is played. ``None`` means the task's own default; ``deal`` fills it in.

    Attributes:
        players: how many perform.
        voters: "all" players, each from its own copy; "civilians" alone; or "referees", who see the full document.
        referees: seats that vote where voters is "referees" (8 as released).
        operator: how the spy's copy is masked, see spy_env.masking.OPERATORS.
        mask_fraction: share of the document's words that is hidden; default the task's.
        document_words: cut documents after this many words; default the task's.
        words: length of a performance that the task asks for; default the task's.

    Raises:
        ValueError: a value that no game can be played with.
    """

    players: int = ranged(5, least=3, hint="with fewer every vote names the spy or nobody")
    voters: str = choice(*VOTERS)
    referees: int = ranged(8, least=1)
    operator: str = "span"
    mask_fraction: float | None = ranged(None, above=0, below=1)
    document_words: int | None = ranged(None, least=5)
    words: int | None = ranged(None, least=5)

    def __post_init__(self) -> None:
        check_ranges(self)
        operator_named(self.operator)

    def for_task(self, task: Task) -> Rules:
        """These rules with the task's defaults filled in."""
        return replace(
            self,
            mask_fraction=task.mask_fraction if self.mask_fraction is None else self.mask_fraction,
            document_words=self.document_words or task.document_words,
            words=self.words or task.words,
        )

    @property
    def vote_weight(self) -> float:
        """n/K where K referees vote for n players (counting seats, whether or not they voted), else 1."""
        return self.players / self.referees if self.voters == "referees" else 1.0


class RawReply(NamedTuple):
    """What a seat said, as it was generated. ``prefix`` is the part of the reply that was put in its mouth."""

    text: str
    prefix: str = ""
    truncated: bool = False


class Performance(NamedTuple):
    """What a seat's reply shows to the others; ``marked`` says whether the task's answer marker stood before it."""

    text: str
    marked: bool


class Rewards(NamedTuple):
    """What each seat earned in each stage."""

    performing: dict[Seat, float]
    detection: dict[Seat, float]


@dataclass(frozen=True, slots=True)
class Game:
    """One game. ``seed`` names it and is all that the deal depends on beside document and rules."""

    seed: str
    task: str
    rules: Rules
    document: Document
    spy: Seat
    hidden: tuple[Span, ...]
    trained: Stage | None = None  # the stage that this game's replies train; decided before anything is generated
    detection_words: int | None = None  # the document is cut further in vote prompts where the ballot needs the room
    shown_characters: Mapping[Seat, int] = field(
        default_factory=dict
    )  # of performances that the ballot has no room for
    replies: Mapping[Stage, Mapping[Seat, RawReply]] = field(
        default_factory=lambda: {Stage.PERFORMING: {}, Stage.DETECTION: {}}
    )

    @property
    def players(self) -> tuple[Seat, ...]:
        """The seats that perform, spy included."""
        return player_seats(self.rules.players)

    @property
    def voters(self) -> tuple[Seat, ...]:
        """The seats that vote."""
        if self.rules.voters == "referees":
            return referee_seats(self.rules.referees)
        return self.players if self.rules.voters == "all" else tuple(p for p in self.players if p != self.spy)

    @property
    def trained_voters(self) -> tuple[Seat, ...]:
        """The voters whose votes may train: all but the spy, who would learn to denounce itself."""
        return tuple(voter for voter in self.voters if voter != self.spy)

    @property
    def stage(self) -> Stage:
        """The stage that still misses a reply."""
        if len(self.replies[Stage.PERFORMING]) < self.rules.players:
            return Stage.PERFORMING
        return Stage.DETECTION if len(self.replies[Stage.DETECTION]) < len(self.voters) else Stage.OVER

    @property
    def waiting(self) -> tuple[Seat, ...]:
        """The seats that have yet to reply in the current stage."""
        stage = self.stage
        if stage is Stage.OVER:
            return ()
        seats = self.players if stage is Stage.PERFORMING else self.voters
        return tuple(seat for seat in seats if seat not in self.replies[stage])

    def with_replies(self, replies: Mapping[Seat, RawReply]) -> Game:
        """The game after some of the waiting seats have replied.

        Raises:
            ValueError: a seat isn't waited for.
        """
        stage, waiting = self.stage, self.waiting
        for seat in replies:
            if seat not in waiting:
                raise ValueError(
                    f"game {self.seed}: no reply of {seat!r} is waited for in stage {stage}; waiting: {list(waiting)}"
                )
        said = {**self.replies[stage], **{seat: _encodable(reply) for seat, reply in replies.items()}}
        order = self.players if stage is Stage.PERFORMING else self.voters
        return replace(self, replies={**self.replies, stage: {seat: said[seat] for seat in order if seat in said}})

    def role(self, seat: Seat) -> str:
        """``spy``, ``civilian`` or ``referee``."""
        if seat == self.spy:
            return "spy"
        return "civilian" if seat in self.players else "referee"

    def performances(self) -> dict[Seat, Performance]:
        """What each player that has performed shows to the others."""
        task = load_task(self.task)
        return {seat: performance_of(reply, task) for seat, reply in self.replies[Stage.PERFORMING].items()}

    def votes(self) -> dict[Seat, Vote]:
        """Each vote cast so far, as read."""
        return {
            seat: parse_vote(reply.prefix + reply.text, self.rules.players)
            for seat, reply in self.replies[Stage.DETECTION].items()
        }

    def tally(self) -> Tally:
        """The votes counted."""
        return count_votes(self.votes(), self.players, self.rules.vote_weight)

    def rewards(self, rules: RewardRules) -> Rewards:
        """What every seat earned under ``rules``. Rewards aren't stored, so a game can be scored again under others.

        Raises:
            ValueError: the game isn't over.
        """
        if self.stage is not Stage.OVER:
            raise ValueError(f"game {self.seed} is in stage {self.stage}; rewards follow from all votes")
        votes = self.votes()
        tally = count_votes(votes, self.players, self.rules.vote_weight)
        return Rewards(performing_rewards(tally, self.spy, rules), detection_rewards(votes, self.spy, rules))

    @property
    def readable(self) -> bool:
        """Whether any vote could be read; a game without one says nothing about the performances."""
        return any(vote != UNREADABLE for vote in self.votes().values())

    @property
    def caught(self) -> bool:
        """Whether the spy alone received the most votes."""
        received = self.tally().received
        return received[self.spy] > max(votes for player, votes in received.items() if player != self.spy)


def _encodable(reply: RawReply) -> RawReply:
    """Lone surrogates, which no file can hold, become ``?``."""
    return reply if reply.text.isascii() else reply._replace(text=reply.text.encode("utf-8", "replace").decode())


def performance_of(reply: RawReply, task: Task) -> Performance:
    """What a reply shows: the text after the task's last marker, or after the last ``</think>`` where there is none.

    Nothing is shown of a reply whose ``<think>`` is never closed.
    """
    said = reply.prefix + reply.text
    thought = said.rpartition("</think>")[2]
    text = "" if "<think>" in thought else after_thinking(said)
    markers = list(task.marker_line.finditer(text))
    return Performance(text[markers[-1].end() if markers else 0 :].strip(), marked=bool(markers))


def deal(document: Document, task: str, rules: Rules, seed: str, trained: Stage | None = None) -> Game:
    """Shorten the document, draw the spy, choose what it does not see. All the chance in a game.

    The seat and the span come from independent streams, and nothing else is drawn from either.

    Raises:
        ValueError: the document is too short to play.
    """
    rules = rules.for_task(load_task(task))
    assert rules.mask_fraction is not None  # for_task has filled these in
    assert rules.document_words is not None
    text = shorten(document.text, rules.document_words)
    if units_found(text) < PLAYABLE_UNITS:
        raise ValueError(f"document {document.id!r} is too short to play: at least {PLAYABLE_UNITS} words are needed")
    return Game(
        seed=seed,
        task=task,
        rules=rules,
        document=Document(document.id, text),
        spy=Random(f"{seed}/spy").choice(player_seats(rules.players)),
        hidden=choose_spans(text, rules.mask_fraction, Random(f"{seed}/span"), rules.operator),
        trained=trained,
    )


__all__ = [
    "ABSTAIN",
    "UNREADABLE",
    "Game",
    "Performance",
    "RawReply",
    "Rewards",
    "Rules",
    "Stage",
    "deal",
    "performance_of",
]
