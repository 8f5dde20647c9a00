"""The immutable record of a game (rules, deal, raw replies), and everything that follows from it.

Chance is spent once, in ``deal``. Everything else here is a pure function of the replies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import NamedTuple

from spy_env.ballot import ABSTAIN, UNREADABLE, Vote, after_thinking, parse_vote
from spy_env.documents import PLAYABLE_UNITS, Document, playable_units, shorten
from spy_env.masking import Span, choose_spans, operator_named
from spy_env.prompts import load_prompts
from spy_env.ranges import check_ranges, choice, ranged
from spy_env.rewards import RewardRules, Tally, count_votes, detection_rewards, performing_rewards
from spy_env.seats import Seat, number_of, player_seats, referee_seats
from spy_env.tasks import Task, load_task

VOTERS = ("all", "civilians", "referees")
BALLOT_ORDERS = ("seat", "voter")


class Stage(StrEnum):
    """The stage of a game: first all players perform, then the voters vote."""

    PERFORMING = "performing"
    DETECTION = "detection"
    OVER = "over"


STAGES = (Stage.PERFORMING, Stage.DETECTION)  # the stages with replies, in order


@dataclass(frozen=True, slots=True)
class Rules:
    """How a game is played. ``None`` means the task's own default; ``deal`` fills it in.

    Attributes:
        players: how many perform.
        voters: "all" players, each from its own copy; "civilians" alone; or "referees", who see the full document.
        referees: seats that vote where voters is "referees" (8 as released).
        ballot_order: "seat", one ballot for all; or "voter": each voter reads the performances in an order of its own.
        prompts: the words of the game: prompts that come with the package ("v1", "lean"), my_prompts.py, or module:PROMPTS.
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
    ballot_order: str = choice(*BALLOT_ORDERS)
    prompts: str = "v1"
    operator: str = "span"
    mask_fraction: float | None = ranged(None, above=0, below=1)
    document_words: int | None = ranged(None, least=5)
    words: int | None = ranged(None, least=5)

    def __post_init__(self) -> None:
        check_ranges(self)
        operator_named(self.operator)

    def for_task(self, task: Task) -> Rules:
        """Return these rules with the task's defaults filled in."""
        return replace(
            self,
            mask_fraction=task.mask_fraction if self.mask_fraction is None else self.mask_fraction,
            document_words=self.document_words or task.document_words,
            words=self.words or task.words,
        )

    @property
    def vote_weight(self) -> float:
        """The weight of a vote: n/K if K referees vote for n players (whether or not each of them voted), else 1."""
        return self.players / self.referees if self.voters == "referees" else 1.0


class RawReply(NamedTuple):
    """A seat's reply as generated. ``prefix`` is the part of it that was put in the seat's mouth."""

    text: str
    prefix: str = ""
    truncated: bool = False


class Performance(NamedTuple):
    """The part of a reply that the other seats see; ``marked``: the task's answer marker precedes it."""

    text: str
    marked: bool


class Rewards(NamedTuple):
    """The reward of each seat in each stage."""

    performing: dict[Seat, float]
    detection: dict[Seat, float]


@dataclass(frozen=True, slots=True)
class Game:
    """One game. The deal depends on document, rules and ``seed`` alone; the seed also names the game."""

    seed: str
    task: str
    rules: Rules
    document: Document
    spy: Seat
    hidden: tuple[Span, ...]
    trained: Stage | None = None  # the stage that this game trains, decided before it is played
    detection_words: int | None = (
        None  # vote prompts show only so many words of the document, if the ballot needs the room
    )
    shown_characters: Mapping[Seat, int] = field(
        default_factory=dict
    )  # of performances that the ballot has no room for
    replies: Mapping[Stage, Mapping[Seat, RawReply]] = field(
        default_factory=lambda: {Stage.PERFORMING: {}, Stage.DETECTION: {}}
    )

    @property
    def players(self) -> tuple[Seat, ...]:
        """The seats that perform, the spy's included."""
        return player_seats(self.rules.players)

    @property
    def voters(self) -> tuple[Seat, ...]:
        """The seats that vote."""
        if self.rules.voters == "referees":
            return referee_seats(self.rules.referees)
        return self.players if self.rules.voters == "all" else tuple(p for p in self.players if p != self.spy)

    @property
    def trained_voters(self) -> tuple[Seat, ...]:
        """The voters whose votes are trained: all but the spy, who would learn to denounce itself."""
        return tuple(voter for voter in self.voters if voter != self.spy)

    @property
    def stage(self) -> Stage:
        """The first stage in which a reply is missing."""
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
        """Return the game after replies of some of the waiting seats.

        Raises:
            ValueError: the game doesn't wait for one of these seats.
        """
        stage, waiting = self.stage, self.waiting
        for seat in replies:
            if seat not in waiting:
                raise ValueError(
                    f"game {self.seed}: {seat!r} has nothing to reply in stage {stage}; the game waits for {list(waiting)}"
                )
        replied = {**self.replies[stage], **{seat: _encodable(reply) for seat, reply in replies.items()}}
        order = self.players if stage is Stage.PERFORMING else self.voters
        return replace(
            self, replies={**self.replies, stage: {seat: replied[seat] for seat in order if seat in replied}}
        )

    def role(self, seat: Seat) -> str:
        """Return the role of a seat, one of ``ROLES``."""
        if seat == self.spy:
            return "spy"
        return "civilian" if seat in self.players else "referee"

    def performances(self) -> dict[Seat, Performance]:
        """Return the performance of each player that has performed."""
        task = load_task(self.task)
        return {seat: performance_of(reply, task) for seat, reply in self.replies[Stage.PERFORMING].items()}

    def ballot(self, voter: Seat) -> tuple[Seat, ...]:
        """Return the players in the order in which a voter reads their performances: numbers 1 to n on its ballot."""
        if self.rules.ballot_order == "seat":
            return self.players
        order = list(self.players)
        Random(f"{self.seed}/ballot/{voter}").shuffle(order)
        return tuple(order)

    def numbers(self) -> dict[Seat, int]:
        """Return the number on its ballot that each voter named so far; voters that named nobody are left out."""
        return {
            voter: self.ballot(voter).index(vote) + 1 for voter, vote in self.votes().items() if vote in self.players
        }

    def votes(self) -> dict[Seat, Vote]:
        """Return each vote cast so far, as read."""
        replies = self.replies[Stage.DETECTION]
        return {voter: self.read_vote(voter, reply.prefix + reply.text) for voter, reply in replies.items()}

    def read_vote(self, voter: Seat, reply: str) -> Vote:
        """Read the vote in a voter's whole reply: the number on its ballot stands for the player with that text."""
        vote = parse_vote(reply, self.rules.players)
        return vote if vote in (ABSTAIN, UNREADABLE) else self.ballot(voter)[number_of(vote) - 1]

    def tally(self) -> Tally:
        """Count the votes."""
        return count_votes(self.votes(), self.players, self.rules.vote_weight)

    def rewards(self, rules: RewardRules) -> Rewards:
        """Return every seat's rewards under ``rules``. They aren't stored, so a game can be scored again under other rules.

        Raises:
            ValueError: the game isn't over.
        """
        if self.stage is not Stage.OVER:
            raise ValueError(f"game {self.seed} is in stage {self.stage}; rewards need all votes")
        votes = self.votes()
        tally = count_votes(votes, self.players, self.rules.vote_weight)
        return Rewards(performing_rewards(tally, self.spy, rules), detection_rewards(votes, self.spy, rules))

    @property
    def readable(self) -> bool:
        """Whether any vote could be read. A game without one is no evidence about the performances."""
        return any(vote != UNREADABLE for vote in self.votes().values())

    @property
    def caught(self) -> bool:
        """Whether the spy alone received the most votes."""
        received = self.tally().received
        return received[self.spy] > max(votes for player, votes in received.items() if player != self.spy)


def _encodable(reply: RawReply) -> RawReply:
    """Replace lone surrogates, which no file can hold, by ``?``."""
    return reply if reply.text.isascii() else reply._replace(text=reply.text.encode("utf-8", "replace").decode())


def performance_of(reply: RawReply, task: Task) -> Performance:
    """Cut the performance out of a reply: the text after the task's last marker, else after the last ``</think>``.

    A reply whose ``<think>`` is never closed shows nothing.
    """
    whole = reply.prefix + reply.text
    last = whole.rpartition("</think>")[2]
    text = "" if "<think>" in last else after_thinking(whole)
    markers = list(task.marker_line.finditer(text))
    return Performance(text[markers[-1].end() if markers else 0 :].strip(), marked=bool(markers))


def deal(document: Document, task: str, rules: Rules, seed: str, trained: Stage | None = None) -> Game:
    """Deal a game: shorten the document, draw the spy, choose the hidden spans. All the chance of a game is in here.

    The seat and the span come from independent streams, and nothing else is drawn from either.

    Raises:
        ValueError: the document is too short to play.
    """
    rules = rules.for_task(load_task(task))
    load_prompts(rules.prompts)  # prompts that can't be had are an error before the game
    assert rules.mask_fraction is not None  # for_task has filled these in
    assert rules.document_words is not None
    text = shorten(document.text, rules.document_words)
    if playable_units(text) < PLAYABLE_UNITS:
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
