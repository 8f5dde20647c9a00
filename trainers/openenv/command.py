"""``spyrl serve``: an OpenEnv server whose sessions are seats of games."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import threading
from collections.abc import Sequence
from itertools import islice

from spy_env import PRESETS, Document, Rules, Stage, load_task, read_documents, shipped_documents, task_names
from spy_env.game import VOTERS
from spy_env.masking import OPERATORS
from trainers.engines import Engine, Sampling
from trainers.engines.players import engine_for, players_help, read_player
from trainers.openenv.offer import Offer
from trainers.openenv.seat_game import OneAtATime

OPPONENTS = ("scripted", "random", "model:FOLDER_OR_ID", "endpoint:URL#MODEL")  # nobody sits at a server's terminal
READ_AT_MOST = 10_000  # documents of a hub's stream; our choice


def main(argv: Sequence[str]) -> int:
    """Serve seats of "Who is the spy?" over OpenEnv's protocol."""
    args = _parser().parse_args(argv)
    _check(args)
    rules = Rules(
        args.players, args.voters, args.referees, args.operator, args.mask_fraction, args.document_words, args.words
    )
    named = {name: read_player(name, OPPONENTS) for name in args.opponent}
    sampling = dict.fromkeys((Stage.PERFORMING, Stage.DETECTION), Sampling(args.max_new_tokens, args.temperature))
    documents = {task: _documents(task, args) for task in args.task}
    if args.dry_run:
        print("\n".join(f"{task}: {len(found)} documents" for task, found in documents.items()))
        print(f"opponents: {', '.join(named)}")
        return 0
    engines = {name: engine_for(player, args.timeout) for name, player in named.items()}
    offer = Offer(
        documents=documents,
        opponents={name: _shared(name, engine) for name, engine in engines.items()},
        rules=rules,
        rewards=PRESETS[args.rewards],
        sampling=sampling,
        max_len=args.max_len if any(player.kind == "model" for player in named.values()) else None,
        max_text=args.max_text,
    )
    _serve(offer, args)
    return 0


def _serve(offer: Offer, args: argparse.Namespace) -> None:
    try:
        from trainers.openenv.server import serve
    except ImportError as error:
        raise ValueError(f"a server needs the openenv extra ({error}): pip install 'spy-env[openenv]'") from error
    with socket.create_server((args.host, args.port)) as listening:
        host, port = listening.getsockname()[:2]
        asyncio.run(
            serve(
                offer,
                listening,
                args.max_sessions,
                args.session_timeout,
                lambda: print(f"serving on http://{host}:{port}", flush=True),
            )
        )
    print("stopped", flush=True)
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        sys.stderr.flush()
        os._exit(0)  # an opponent still generates for a session that is over; Python would wait for it


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "spyrl serve",
        description=main.__doc__,
        epilog=players_help(OPPONENTS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets anybody in who reaches this machine")
    parser.add_argument("--port", type=int, default=8000, help="0 chooses a free one")
    parser.add_argument("--max_sessions", type=int, default=64, help="connections that play at once")
    parser.add_argument(
        "--max_text", type=int, default=100_000, help="characters of a reply or a document from a client"
    )
    parser.add_argument("--session_timeout", type=float, default=600.0, help="seconds that a session may say nothing")
    parser.add_argument(
        "--task",
        nargs="+",
        default=["summarization"],
        help=f"what clients may play; {', '.join(task_names())}, my_task.py, or module:TASK; the first is the default",
    )
    parser.add_argument(
        "--documents", help=".jsonl, folder of text files, or id:config:split:column; default: each task's own"
    )
    parser.add_argument("--input_key", default="text", help="the field of a JSONL row that holds the text")
    parser.add_argument(
        "--opponent",
        nargs="+",
        default=["scripted", "random"],
        metavar="PLAYER",
        help="who may play the other seats; the first is the default",
    )
    parser.add_argument("--players", type=int, default=5)
    parser.add_argument("--voters", choices=VOTERS, default="all")
    parser.add_argument("--referees", type=int, default=8)
    parser.add_argument("--operator", choices=sorted(OPERATORS), default="span")
    parser.add_argument("--mask_fraction", type=float)
    parser.add_argument("--document_words", type=int, help="cut documents after this many words")
    parser.add_argument("--words", type=int, help="length of a performance that the task asks for")
    parser.add_argument("--rewards", choices=sorted(PRESETS), default="spyrl")
    parser.add_argument("--max_new_tokens", type=int, default=512, help="of an opponent's reply")
    parser.add_argument("--max_len", type=int, default=4096, help="prompt + reply of a local model, in tokens")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one request to an endpoint")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be served")
    return parser


def _check(args: argparse.Namespace) -> None:
    for name in ("max_sessions", "max_text"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name} is {getattr(args, name)}; it must be at least 1")
    for name in ("session_timeout", "timeout"):
        if not 0 < getattr(args, name) < float("inf"):
            raise ValueError(f"--{name} is {getattr(args, name)}; give seconds above 0")
    if not 0 <= args.port < 65_536:
        raise ValueError(f"--port is {args.port}; give one from 0 to 65535")


def _documents(task: str, args: argparse.Namespace) -> list[Document]:
    loaded = load_task(task)
    stream = read_documents(args.documents, args.input_key) if args.documents else shipped_documents(loaded)
    return list(islice(stream, READ_AT_MOST))


def _shared(name: str, engine: Engine) -> Engine:
    """An engine that several sessions may ask at a time."""
    return OneAtATime(engine) if name.startswith("model:") else engine
