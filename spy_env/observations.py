"""The only module that decides what a seat is told.

Both stages begin with the same header and document, so a prefix cache serves them all. A performing prompt tells its
seat's role; a vote prompt tells neither role nor seat, so all civilians of a game vote on the same bytes.
"""

from __future__ import annotations

from spy_env.ballot import read_ballot, render_ballot
from spy_env.documents import shorten
from spy_env.game import Game, Stage
from spy_env.masking import OPERATORS, hide
from spy_env.seats import Seat
from spy_env.tasks import load_task

_OPEN, _CLOSE = "<document>\n", "\n</document>\n"

_HEADER = """\
Rules of "Who is the spy?": {players} players do the same task with the same document, but in the copy of one of them, \
the spy, {described}{share}. Then all results are shown and {voters} vote on who the spy is.

"""
_VOTERS = {"all": "the players", "civilians": "the players", "referees": "referees"}

_CIVILIAN = """\
Your copy is complete: you are a civilian. Do the task so well that nobody takes you for the spy.
"""
_SPY = """\
Your copy is the incomplete one: you are the spy. Do the task so well that nobody notices: do not mention that anything \
is missing, and do not make up what you cannot know.
"""
_PERFORM = """\
You may think first; that stays private. Then write "{marker}" and after it your result, the only part that is shown.
{task}
"""
_DETECT = """\
The task was: {task}
The results:

{ballot}

Who is the spy? The spy has not seen a part of the document, so its result leaves that part out or guesses it. Compare \
the results with the document and look for {detect}. You may think first. End with \\boxed{{k}}, k being the number of \
the player that you vote for (1 to {players}), or with \\boxed{{N/A}} if you really cannot tell.
"""


def observe(game: Game, stage: Stage) -> dict[Seat, str]:
    """Return the prompt of every seat that acts in ``stage``. Equal prompts are one string.

    Raises:
        ValueError: vote prompts are asked for before all players have performed.
    """
    if stage is Stage.PERFORMING:
        begin = _beginning(game, None)
        by_role = {role: begin[role] + _performing(game, role) for role in ("spy", "civilian")}
        return {seat: by_role[game.role(seat)] for seat in game.players}
    if len(game.replies[Stage.PERFORMING]) < game.rules.players:
        raise ValueError(f"game {game.seed}: there is no ballot before all {game.rules.players} players have performed")
    begin = _beginning(game, game.detection_words)
    question = _detecting(game)
    prompts = {role: beginning + question for role, beginning in begin.items()}
    return {seat: prompts["spy" if seat == game.spy else "civilian"] for seat in game.voters}


def read_document(prompt: str) -> str:
    """Read the document back from a prompt; empty if there is none. No line of a ballot can end it."""
    return prompt.partition(_OPEN)[2].rpartition(_CLOSE)[0]


def read_results(prompt: str) -> list[tuple[Seat, str]]:
    """Read the ballot back from a vote prompt; empty for a performing prompt. No document can pass for a ballot."""
    return read_ballot(prompt.rpartition(_CLOSE)[2])


def _beginning(game: Game, words: int | None) -> dict[str, str]:
    rules = game.rules
    text = game.document.text if words is None else shorten(game.document.text, words)
    share = f" (about {round(100 * (rules.mask_fraction or 0))} % of the text)"
    header = _HEADER.format(
        players=rules.players,
        described=OPERATORS[rules.operator].described,
        share=share,
        voters=_VOTERS[rules.voters],
    )
    masked = hide(text, game.hidden, rules.operator)
    return {role: f"{header}{_OPEN}{shown}{_CLOSE}\n" for role, shown in (("spy", masked), ("civilian", text))}


def _performing(game: Game, role: str) -> str:
    task = load_task(game.task)
    told = _PERFORM.format(task=task.perform.format(words=game.rules.words), marker=task.marker)
    return (_SPY if role == "spy" else _CIVILIAN) + told


def _detecting(game: Game) -> str:
    task = load_task(game.task)
    shown = {seat: performance.text for seat, performance in game.performances().items()}
    ballot = render_ballot([(seat, text[: game.shown_characters.get(seat)]) for seat, text in shown.items()])
    return _DETECT.format(
        players=game.rules.players,
        ballot=ballot,
        task=task.perform.format(words=game.rules.words),
        detect=task.detect,
    )
