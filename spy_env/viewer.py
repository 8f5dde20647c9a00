"""Games as text for a terminal, and the door to the page: without the spy's identity until it is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spy_env.ballot import printable, render_ballot
from spy_env.game import Game, Stage
from spy_env.origin import games_files, origin_of
from spy_env.page import page_of
from spy_env.records import read_games
from spy_env.rewards import PRESETS, RewardRules
from spy_env.seats import Seat

HIDDEN_FROM, HIDDEN_TO = "[[", "]]"
PAGES = (".html", ".htm")


def running_text(game: Game, acted: int, seats: int, rules: RewardRules) -> str:
    """A running game as an onlooker sees it: the same for every choice of spy."""
    head = f'"Who is the spy?" ({game.task}, {game.rules.players} players), stage {game.stage}'
    if game.stage is Stage.OVER:
        return f"{head}\n{outcome_text(game, rules)}"
    progress = f"{head}: {acted} of {seats} seats have replied"
    return progress if game.stage is Stage.PERFORMING else f"{progress}\n{ballot_text(game)}"


def ballot_text(game: Game) -> str:
    """All performances side by side, as the voters see them."""
    return render_ballot([(seat, shown.text) for seat, shown in game.performances().items()])


def document_text(game: Game, reveal: bool) -> str:
    """The document; revealed, with ``[[ ]]`` around what the spy did not see."""
    text, pieces, position = game.document.text, [], 0
    for span in game.hidden if reveal else ():
        pieces += [text[position : span.start], HIDDEN_FROM, text[span.start : span.end], HIDDEN_TO]
        position = span.end
    return "\n".join(printable(line) for line in "".join([*pieces, text[position:]]).splitlines())


def outcome_text(game: Game, rules: RewardRules) -> str:
    """Who the spy was, who voted for whom, and what each seat earned."""
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
    """A whole game. Before ``reveal`` neither the spy nor the votes are told."""
    title = printable(f"=== Game {game.seed}: {game.task}, document {game.document.id}")
    parts = [title, document_text(game, reveal)]
    if game.stage is Stage.PERFORMING:
        return "\n\n".join([*parts, "(not played yet)"])
    parts += [ballot_text(game), *(_replies_text(game) if reveal else [])]
    if reveal and game.stage is Stage.OVER:
        parts.append(outcome_text(game, rules or RewardRules()))
    return "\n\n".join(parts)


def _replies_text(game: Game) -> list[str]:
    """The votes as they were said."""
    said = [(seat, reply.prefix + reply.text) for seat, reply in game.replies[Stage.DETECTION].items()]
    return ["\n".join(f"{_named(game, seat)} said: " + " ".join(map(printable, text.split())) for seat, text in said)]


def _named(game: Game, seat: Seat) -> str:
    return f"{seat} ({game.role(seat)})"


def main(argv: Sequence[str]) -> int:
    """Show saved games."""
    args = _parser().parse_args(argv)
    if args.html and args.list:
        raise ValueError("--html writes a page that holds the list; leave --list out")
    if args.html and args.html.suffix.lower() not in PAGES:  # such as games, which it would overwrite
        raise ValueError(f"--html is {args.html}; name the page to write, such as games.html, before the games")
    preset = PRESETS.get(args.rewards)
    files = [(file, origin_of(file, preset)) for path in args.games for file in games_files(path)]
    games = list(enumerate(((game, origin) for file, origin in files for game in read_games(file)), start=1))
    chosen = [(n, game, origin) for n, (game, origin) in games if args.game in (None, str(n), game.seed)]
    if not chosen:
        what = (
            "no games in these files" if not games else f"no game {args.game!r} among the {len(games)} in these files"
        )
        raise ValueError(f"{what}; `spyrl replay --list FILES` lists them")
    if args.html:
        args.html.parent.mkdir(parents=True, exist_ok=True)
        args.html.write_text(page_of(chosen, args.reveal), encoding="utf-8")
        print(f"{len(chosen):,} games in {args.html}, {args.html.stat().st_size / 1e6:.1f} MB; open it in a browser")
        return 0
    for number, game, origin in chosen:
        if args.list:
            print(printable(f"{number:>5}  {game.seed:<24} {game.task:<18} stage {game.stage:<11} {game.document.id}"))
        elif not _show(game, origin.rewards, args.reveal):
            break
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("spyrl replay", description="Show saved games; spoiler-free until you ask.")
    parser.add_argument("games", nargs="+", type=Path, help="files of games (.jsonl), or a run's folder")
    parser.add_argument("--game", help="show only the game with this number (from 1) or seed")
    parser.add_argument("--list", action="store_true", help="one line a game instead")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page for a browser instead; no network")
    parser.add_argument(
        "--reveal", action="store_true", help="tell the spy, the hidden text, votes and rewards at once"
    )
    parser.add_argument(
        "--rewards", choices=sorted(PRESETS), help="reward rules to score by; default: the run's, else spyrl"
    )
    return parser


def _show(game: Game, rules: RewardRules, reveal: bool) -> bool:
    """Print a game; at a terminal its reveal waits for Enter. False where the reader has seen enough."""
    print(game_text(game, reveal, rules), end="\n\n")
    if not reveal and game.stage is Stage.OVER and sys.stdin.isatty():
        try:
            input("Who is the spy? Press Enter to see. ")
        except EOFError:  # Ctrl-D
            return False
        print(_replies_text(game)[0], outcome_text(game, rules), sep="\n\n", end="\n\n")
    return True
