"""``spyrl replay``: saved games at the terminal or as a page, without the spy's identity until it is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spy_env.ballot import printable
from spy_env.game import Game, Stage
from spy_env.records import read_games
from spy_env.render import game_text, outcome_text, replies_text
from spy_env.rewards import PRESETS, RewardRules
from spy_env.viewer.origin import games_files, origin_of
from spy_env.viewer.page import page_of

PAGES = (".html", ".htm")


def main(argv: Sequence[str]) -> int:
    """Show saved games."""
    args = _parser().parse_args(argv)
    if args.html and args.list:
        raise ValueError("--html writes a page that holds the list; leave --list out")
    if args.html and args.html.suffix.lower() not in PAGES:  # else it could overwrite games
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
    """Print a game; at a terminal its reveal waits for Enter. Return False if the reader has seen enough."""
    print(game_text(game, reveal, rules), end="\n\n")
    if not reveal and game.stage is Stage.OVER and sys.stdin.isatty():
        try:
            input("Who is the spy? Press Enter to see. ")
        except EOFError:  # Ctrl-D
            return False
        print(replies_text(game)[0], outcome_text(game, rules), sep="\n\n", end="\n\n")
    return True
