"""``spyrl serve``: an OpenEnv server whose sessions are seats of games."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
from collections.abc import Sequence
from itertools import islice
from typing import Any, get_args, get_type_hints

from spy_env import PRESETS, Document, Rules, Stage, load_task, read_documents, shipped_documents, task_names
from spy_env.game import VOTERS
from spy_env.masking import OPERATORS
from trainers.engines import Engine, Sampling
from trainers.engines.players import engine_for, read_player, told
from trainers.openenv.offer import Offer, OneAtATime

OPPONENTS = ("scripted", "random", "model:FOLDER_OR_ID", "endpoint:URL#MODEL")  # nobody sits at a server's terminal
MOST_DOCUMENTS = 10_000  # of a task, so that a hub's stream ends; our choice
NUMBERS = {  # flag: default, least, most, meaning
    "port": (8000, 0, 65_535, "0 chooses a free one"),
    "max_sessions": (64, 1, 100_000, "connections that play at once"),
    "max_text": (100_000, 1, 100_000_000, "characters of a reply or a document from a client"),
    "session_timeout": (600.0, 0.01, 1e8, "seconds that a session may be silent"),
    "max_new_tokens": (512, 1, 10_000_000, "of an opponent's reply"),
    "max_len": (4096, 1, 10_000_000, "prompt + reply of a local model, in tokens"),
    "temperature": (1.0, 0, 100, "of an opponent's replies"),
    "timeout": (120.0, 0.01, 1e8, "seconds for one request to an endpoint"),
}
RULES: dict[str, dict[str, Any]] = {  # of the flags that set the rules, beside their names, kinds and defaults
    "voters": {"choices": VOTERS},
    "operator": {"choices": sorted(OPERATORS)},
    "document_words": {"help": "cut documents after this many words"},
    "words": {"help": "length of a performance that the task asks for"},
}


def main(argv: Sequence[str]) -> int:
    """Serve seats of "Who is the spy?" over OpenEnv's protocol."""
    args = _parser().parse_args(argv)
    for name, (_, least, most, _) in NUMBERS.items():
        if not least <= (value := getattr(args, name)) <= most:
            raise ValueError(f"--{name} is {value}; give a number from {least} to {most:g}")
    rules = Rules(**{name: getattr(args, name) for name in get_type_hints(Rules)})
    players = {name: read_player(name, OPPONENTS) for name in args.opponent}
    documents = {task: _documents(task, args) for task in args.task}
    if args.dry_run:
        print("\n".join(f"{task}: {len(rows)} documents" for task, rows in documents.items()))
        print(f"opponents: {', '.join(players)}")
        return 0
    sampling = Sampling(args.max_new_tokens, args.temperature)
    local = [name for name, player in players.items() if player.kind == "model"]
    opponents: dict[str, Engine] = {name: engine_for(player, args.timeout) for name, player in players.items()}
    offer = Offer(
        documents=documents,
        opponents=opponents | {name: OneAtATime(opponents[name]) for name in local},
        rules=rules,
        rewards=PRESETS[args.rewards],
        sampling={Stage.PERFORMING: sampling, Stage.DETECTION: sampling},
        max_len=args.max_len if local else None,
        max_text=args.max_text,
    )
    _serve(offer, args)
    return 0


def _serve(offer: Offer, args: argparse.Namespace) -> None:
    try:
        from trainers.openenv.server import serve
    except ImportError as error:
        raise ValueError(f"a server needs the openenv extra ({error}): pip install -e '.[openenv]'") from error
    with socket.create_server((args.host, args.port)) as listening:
        serve(offer, listening, args.max_sessions, args.session_timeout)
    print("stopped", flush=True)
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        sys.stderr.flush()
        os._exit(0)  # an opponent still generates for a session that is over; Python would wait for it


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "spyrl serve",
        description=main.__doc__,
        epilog=told(OPPONENTS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--task",
        nargs="+",
        default=["summarization"],
        help=f"the clients' choice; {', '.join(task_names())}, my_task.py, or module:TASK; the first is the default",
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
        help="the clients' choice for the other seats; the first is the default",
    )
    for name, kind in get_type_hints(Rules).items():
        first = (*get_args(kind), kind)[0]  # "int | None" is read as an int
        parser.add_argument(f"--{name}", type=first, default=getattr(Rules(), name), **RULES.get(name, {}))
    parser.add_argument("--rewards", choices=sorted(PRESETS), default="spyrl")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets everybody in who reaches this machine")
    for name, (default, _, _, meaning) in NUMBERS.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=meaning)
    parser.add_argument("--dry-run", action="store_true", help="only list what would be served")
    return parser


def _documents(task: str, args: argparse.Namespace) -> list[Document]:
    loaded = load_task(task)
    documents = read_documents(args.documents, args.input_key) if args.documents else shipped_documents(loaded)
    return list(islice(documents, MOST_DOCUMENTS))
