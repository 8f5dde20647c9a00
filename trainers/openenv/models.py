"""What goes over the wire: a seat's reply, what it is told, and what may be known of a running game."""

from __future__ import annotations

from typing import Annotated, Any

from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field, WithJsonSchema

Text = Annotated[Any, WithJsonSchema({"type": "string"})]
"""Checked by the environment, so that no text whatever makes an error that can't be sent back."""


class SpyAction(Action):
    """A seat's whole reply, in both stages."""

    text: Text = Field(description="the reply: a performance after the task's marker, or a vote in \\boxed{}")


class SpyObservation(Observation):
    """What the seat is told. Roles, votes and the record are told when the game is over, never before."""

    prompt: str = Field(description="everything the seat is told; empty when the game is over")
    stage: str = Field(description="performing, detection or over")
    seat: str = Field(description="whose view this is")
    role: str | None = Field(default=None, description="spy, civilian or referee")
    vote: str | None = Field(default=None, description="the seat's vote as it was read: a seat, abstain or unreadable")
    performing_reward: float | None = None
    detection_reward: float | None = None
    record: str | None = Field(default=None, description="the game as a line of JSON, which spyrl replay reads")


class SpyState(State):
    """Where a session stands; tells nothing that its seat isn't told."""

    task: str = ""
    seat: str = ""
    stage: str = ""
    players: int = 0
