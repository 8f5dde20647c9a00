"""``spyrl play``: games with any mix of players, shown and saved."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from spy_env import Game, Rules, Seat, load_prompts, load_task, player_seats, referee_seats, task_names, write_games
from spy_env.render import game_text
from trainers.config import StageSampling, sampling_by_stage
from trainers.corpus import Corpus
from trainers.engines.players import ANYWHERE, engine_for, players_help, read_player
from trainers.prompt_budget import deal_to_fit
from trainers.rollout import SeatPolicies, rollout
from trainers.settings import add_rules, rules_of

PLAYERS = players_help(ANYWHERE)


def main(argv: Sequence[str]) -> int:
    """Play games of "Who is the spy?"."""
    args = _parser().parse_args(argv)
    rules = rules_of(args)
    seats = [*player_seats(rules.players), *(referee_seats(rules.referees) if rules.voters == "referees" else ())]
    who = _who(args, seats)
    load_task(args.task)
    load_prompts(rules.prompts)
    if args.batch_size < 1:
        raise ValueError(f"--batch_size is {args.batch_size}; play 1 game at a time at least")
    if args.dry_run:
        print("\n".join(f"{seat}: {player}" for seat, player in who.items()))
        return 0
    output = _fresh(Path(args.output))
    failed: list[Game] = []
    for played in _played(args, rules, _seating(args, who), failed):
        write_games(output, [played])
        print(game_text(played, reveal=args.reveal or args.human is not None), end="\n\n")
    print(f"games: {output}" + (f" ({len(failed)} could not be played and are not in it)" if failed else ""))
    print(f"see who the spy was: spyrl replay --reveal {output}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "spyrl play", description=main.__doc__, epilog=PLAYERS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--task", default="summarization", help=f"one of {', '.join(task_names())}, my_task.py, or module:TASK"
    )
    parser.add_argument(
        "--documents", help=".jsonl, folder of text files, id:config:split:column, or aclsum; default: the task's own"
    )
    parser.add_argument("--input_key", default="text", help="the field of a JSONL row that holds the text")
    parser.add_argument("--games", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=1, help="games played at the same time: faster with a model")
    parser.add_argument(
        "--player", default="scripted", metavar="PLAYER", help="who plays all seats that aren't named (scripted)"
    )
    parser.add_argument(
        "--seat", action="append", default=[], metavar="SEAT=PLAYER", help="who plays one seat; may be repeated"
    )
    parser.add_argument("--human", metavar="SEAT", help="you play this seat")
    add_rules(parser)
    parser.add_argument("--max_new_tokens", type=int, default=512, help="of a model's reply")
    parser.add_argument("--max_len", type=int, default=4096, help="prompt + reply of a local model, in tokens")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--performing_prefill", default="", help="put in a local model's mouth, such as 'Summary:'")
    parser.add_argument(
        "--detection_prefill", default="", help="such as '\\boxed{'; the vote then stops at the closing brace"
    )
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one request to an endpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default="outputs/play/games.jsonl", help="where games are saved; never overwritten")
    parser.add_argument("--reveal", action="store_true", help="tell the spy, the votes and the rewards at once")
    parser.add_argument("--dry-run", action="store_true", help="only say who would play")
    return parser


def _who(args: argparse.Namespace, seats: Sequence[Seat]) -> dict[Seat, str]:
    who = dict.fromkeys(seats, args.player)
    named = [pair.partition("=") for pair in args.seat]
    for seat, _, player in [*named, *([(args.human, "=", "human")] if args.human else [])]:
        if seat not in who:
            raise ValueError(f"no seat {seat!r} in this game; choose one of {list(seats)}")
        who[seat] = player
    for player in who.values():
        read_player(player, ANYWHERE)
    return who


def _seating(args: argparse.Namespace, who: dict[Seat, str]) -> SeatPolicies:
    engines = {
        player: engine_for(read_player(player, ANYWHERE), args.timeout) for player in dict.fromkeys(who.values())
    }
    stop = "}" if args.detection_prefill else ""
    sampling = sampling_by_stage(
        args.max_new_tokens,
        args.temperature,
        StageSampling(prefill=args.performing_prefill),
        StageSampling(prefill=args.detection_prefill, stop=stop),
    )
    max_len = args.max_len if any(player.startswith("model:") for player in engines) else None
    return SeatPolicies(
        next(iter(engines.values())), sampling, max_len, {seat: engines[player] for seat, player in who.items()}
    )


def _played(args: argparse.Namespace, rules: Rules, seating: SeatPolicies, failed: list[Game]) -> Iterator[Game]:
    """Yield games as they are over; those that fail are collected and left out."""

    def failure(game: Game, reason: str) -> None:
        print(f"game {game.seed} could not be played: {reason}")
        failed.append(game)

    documents = Corpus(args.task, args.documents, args.input_key).training()
    numbered = zip(range(args.games), documents, strict=False)
    while some := list(islice(numbered, args.batch_size)):
        games = [deal_to_fit(text, args.task, rules, f"{args.seed}/{i}", None, seating.budget) for i, text in some]
        yield from (played.game for played in rollout(games, seating, on_failure=failure))


def _fresh(path: Path) -> Path:
    """Return the path, with the next free number if it is taken."""
    number = 2
    fresh = path
    while fresh.exists():
        fresh = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return fresh
