"""A game as text, for the doors and for terminals. It doesn't tell the spy before the reveal."""

from __future__ import annotations

from spy_env.ballot import printable, render_ballot
from spy_env.game import Game, Stage
from spy_env.rewards import RewardRules
from spy_env.seats import Seat

HIDDEN_FROM, HIDDEN_TO = "[[", "]]"


def running_text(game: Game, acted: int, seats: int, rules: RewardRules) -> str:
    """Render a running game for an onlooker: the same text whoever is the spy."""
    head = f'"Who is the spy?" ({game.task}, {game.rules.players} players), stage {game.stage}'
    if game.stage is Stage.OVER:
        return f"{head}\n{outcome_text(game, rules)}"
    progress = f"{head}: {acted} of {seats} seats have replied"
    return progress if game.stage is Stage.PERFORMING else f"{progress}\n{ballot_text(game)}"


def ballot_text(game: Game) -> str:
    """Render all performances under their players' numbers; a voter may read them in another order."""
    return render_ballot(shown.text for shown in game.performances().values())


def document_text(game: Game, reveal: bool) -> str:
    """Render the document; revealed, with ``[[ ]]`` around the spans that the spy did not see."""
    text, pieces, position = game.document.text, [], 0
    for span in game.hidden if reveal else ():
        pieces += [text[position : span.start], HIDDEN_FROM, text[span.start : span.end], HIDDEN_TO]
        position = span.end
    return "\n".join(printable(line) for line in "".join([*pieces, text[position:]]).splitlines())


def outcome_text(game: Game, rules: RewardRules) -> str:
    """Render the outcome: the spy, the votes, and the rewards of each seat."""
    earned, votes = game.rewards(rules), game.votes()
    lines = [f"The spy was {game.spy}, {'caught' if game.caught else 'not caught'}."]
    lines.append(f"{'seat':<12}{'role':<10}{'votes for':<12}{'received':>8}{'performing':>12}{'detection':>11}")
    received = game.tally().received
    for seat in dict.fromkeys([*game.players, *game.voters]):
        lines.append(
            f"{seat:<12}{game.role(seat):<10}{votes.get(seat, '-'):<12}"
            f"{_number(received.get(seat), 'g'):>8}{_number(earned.performing.get(seat), '+z.3f'):>12}"
            f"{_number(earned.detection.get(seat), '+z.3f'):>11}"
        )
    return "\n".join(lines)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def game_text(game: Game, reveal: bool = False, rules: RewardRules | None = None) -> str:
    """Render a whole game; the spy and the votes only with ``reveal``."""
    title = printable(f"=== Game {game.seed}: {game.task}, document {game.document.id}")
    parts = [title, document_text(game, reveal)]
    if game.stage is Stage.PERFORMING:
        return "\n\n".join([*parts, "(not played yet)"])
    parts += [ballot_text(game), *(replies_text(game) if reveal else [])]
    if reveal and game.stage is Stage.OVER:
        parts.append(outcome_text(game, rules or RewardRules()))
    return "\n\n".join(parts)


def replies_text(game: Game) -> list[str]:
    """Render the replies in which the votes were cast, and whom a number means on a ballot in the voter's own order."""
    said = [(seat, reply.prefix + reply.text) for seat, reply in game.replies[Stage.DETECTION].items()]
    lines = [f"{_named(game, seat)} said: " + " ".join(map(printable, text.split())) for seat, text in said]
    if game.rules.ballot_order == "voter":
        votes = game.votes()
        lines = [f"{line} (on its ballot: {votes[seat]})" for line, (seat, _) in zip(lines, said, strict=True)]
    return ["\n".join(lines)]


def _named(game: Game, seat: Seat) -> str:
    return f"{seat} ({game.role(seat)})"
