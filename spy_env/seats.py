"""Seats: agent ids and roles. The number in a player's id is printed beside its performance, and voted for."""

from __future__ import annotations

Seat = str
"""An agent id: ``player_1`` to ``player_n`` or ``referee_1`` to ``referee_k``."""
ROLES = ("spy", "civilian", "referee")


def player_seats(count: int) -> tuple[Seat, ...]:
    """Name the players, ``player_1`` to ``player_count``."""
    return tuple(f"player_{number}" for number in range(1, count + 1))


def referee_seats(count: int) -> tuple[Seat, ...]:
    """Name the referees, ``referee_1`` to ``referee_count``."""
    return tuple(f"referee_{number}" for number in range(1, count + 1))


def number_of(seat: Seat) -> int:
    """Return the number in a seat's name, counted from 1."""
    return int(seat.rpartition("_")[2])
