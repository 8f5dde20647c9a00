"""The only module that decides what a seat is told.

Both stages begin with the same header and document, so a prefix cache serves them all. A performing prompt tells its
seat's role; a vote prompt tells neither role nor seat. With one ballot for all (``ballot_order`` ``seat``) the civilians
of a game vote on the same bytes; with an order per voter their prompts differ in the order of the texts alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from spy_env.ballot import read_ballot, render_ballot
from spy_env.documents import shorten
from spy_env.game import Game, Rules, Stage
from spy_env.masking import OPERATORS, hide
from spy_env.prompts import load_prompts
from spy_env.seats import Seat
from spy_env.tasks import load_task

_OPEN, _CLOSE = "<document>\n", "\n</document>\n"

_VOTERS = {"all": "the players", "civilians": "the players", "referees": "referees"}


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
    orders = {seat: game.ballot(seat) for seat in game.voters}
    questions = {order: _detecting(game, order) for order in set(orders.values())}
    prompts = {
        (role, order): begin[role] + question for role in ("spy", "civilian") for order, question in questions.items()
    }
    return {seat: prompts["spy" if seat == game.spy else "civilian", orders[seat]] for seat in game.voters}


def read_document(prompt: str) -> str:
    """Read the document back from a prompt; empty if there is none. No line of a ballot can end it."""
    return prompt.partition(_OPEN)[2].rpartition(_CLOSE)[0]


def read_results(prompt: str) -> list[tuple[int, str]]:
    """Read numbers and texts of the ballot back from a vote prompt; empty for a performing prompt. No document can pass for a ballot."""
    return read_ballot(prompt.rpartition(_CLOSE)[2])


def _beginning(game: Game, words: int | None) -> dict[str, str]:
    rules = game.rules
    text = game.document.text if words is None else shorten(game.document.text, words)
    header = load_prompts(rules.prompts).header.format(
        players=rules.players, voters=_VOTERS[rules.voters], **_masking(rules)
    )
    masked = hide(text, game.hidden, rules.operator)
    return {role: f"{header}{_OPEN}{shown}{_CLOSE}\n" for role, shown in (("spy", masked), ("civilian", text))}


def _masking(rules: Rules) -> dict[str, str]:
    """Return how the spy's copy is masked, and the share that is, in words."""
    return {
        "described": OPERATORS[rules.operator].described,
        "share": f" (about {round(100 * (rules.mask_fraction or 0))} % of the text)",
    }


def _performing(game: Game, role: str) -> str:
    prompts, task = load_prompts(game.rules.prompts), load_task(game.task)
    told = prompts.spy.format(**_masking(game.rules)) if role == "spy" else prompts.civilian.format()
    return told + prompts.perform.format(marker=task.marker, **_asked(game))


def _detecting(game: Game, order: Sequence[Seat]) -> str:
    performances = game.performances()
    ballot = render_ballot(performances[seat].text[: game.shown_characters.get(seat)] for seat in order)
    return load_prompts(game.rules.prompts).detect.format(
        players=game.rules.players, ballot=ballot, detect=load_task(game.task).detect, **_asked(game)
    )


def _asked(game: Game) -> dict[str, str]:
    """Return the task in full and in one sentence, as players are asked for it."""
    task = load_task(game.task)
    return {
        "task": task.perform.format(words=game.rules.words),
        "brief": (task.brief or task.perform).format(words=game.rules.words),
    }
