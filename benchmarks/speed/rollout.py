"""The speed of games whose seats are calls that meet: ``python -m benchmarks.speed.throughput rollout``.

Games go the executor's own way, and the same requests go the other ways of ``rollout_order``, in one run, each with an empty
cache. Seconds are the least of the rounds; on a busy machine compare CPU seconds (this process's and the engine's), too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.speed.rollout_order import SCENARIOS, Asked, Round, Scenario, documents_of, take_turns


def report(
    scenario: Scenario, rounds_of: Mapping[str, Sequence[Round]], games: Sequence[Asked], tokenizer: Any
) -> dict[str, Any]:
    """Return one row: the requests, the least seconds by way, their ratios, and the prompt tokens that the last round prefilled.

    Prefilled tokens are in units of the games' documents; ``documents_asked`` is their number if nothing were shared.
    """
    lengths = [len(tokenizer(one.game.document.text, add_special_tokens=False)["input_ids"]) for one in games]
    seconds = {way: min(one.seconds for one in rounds) for way, rounds in rounds_of.items()}
    cpu_seconds = {way: min(one.cpu_seconds for one in rounds) for way, rounds in rounds_of.items()}
    tables = rounds_of["tables"][-1].generated
    return {
        "scenario": scenario.name,
        "requests": len(tables),
        "document_tokens": lengths,
        "prompt_tokens": sum(len(one.prompt_ids) for one in tables),
        "generated_tokens": sum(one.length for one in tables),
        "seconds": {way: round(value, 2) for way, value in seconds.items()},
        "cpu_seconds": {way: round(value, 2) for way, value in cpu_seconds.items()},
        "released_to_tables": _ratios(seconds, cpu_seconds, "released", "tables"),
        "tables_to_waves": _ratios(seconds, cpu_seconds, "tables", "waves"),
        "documents_asked": round(sum(len(one.prompt_ids) for one in tables) / sum(lengths), 2),
        "documents_prefilled": {
            way: round(sum(one.prefilled for one in rounds[-1].generated) / sum(lengths), 2)
            for way, rounds in rounds_of.items()
        },
        "documents_prefilled_by_game": [
            round(sum(one.prefilled for one in tables if one.prompt_ids in game.every_prompt) / length, 2)
            for game, length in zip(games, lengths, strict=True)
        ],
    }


def _ratios(seconds: Mapping[str, float], cpu_seconds: Mapping[str, float], one: str, other: str) -> dict[str, float]:
    return {
        name: round(value[one] / value[other], 3)
        for name, value in (("seconds", seconds), ("cpu_seconds", cpu_seconds))
        if value[other]
    }


async def measure(args: argparse.Namespace) -> None:
    """Make the engine and print one JSON object per scenario."""
    from transformers import AutoTokenizer

    from benchmarks.speed.rollout_engine import FixedLengthEngine
    from trainers.first_run.downloads import small_model

    chosen = [SCENARIOS[number - 1] for number in args.scenarios]
    documents = [documents_of(args.documents, scenario) for scenario in chosen]
    folder = args.weights or str(small_model(lambda text: print(text, file=sys.stderr)))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    engine = FixedLengthEngine(folder, args.max_len, args.block)
    try:
        await engine.warm_up()
        for scenario, played_on in zip(chosen, documents, strict=True):
            rounds_of, games = await take_turns(scenario, played_on, engine, tokenizer, args.max_len, args.rounds)
            row = {"block": engine.block, "rounds": args.rounds, **report(scenario, rounds_of, games, tokenizer)}
            print(json.dumps(row), flush=True)
    finally:
        engine.close()


def main(argv: Sequence[str]) -> int:
    """Measure and print one JSON object per scenario."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.throughput rollout", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--weights", metavar="FOLDER", help="a transformers folder; default SmolLM2-135M-Instruct")
    parser.add_argument("--documents", help="a corpus, as spyrl train takes it; default the task's own, put together")
    parser.add_argument("--max-len", type=int, default=8192, help="prompt and reply, in tokens")
    parser.add_argument("--block", type=int, help="tokens in a block of the cache; OpenRLHF leaves it to vLLM")
    parser.add_argument("--scenarios", type=int, nargs="*", default=range(1, len(SCENARIOS) + 1), help="by number")
    args = parser.parse_args(argv)
    os.environ["OMP_NUM_THREADS"] = "1"
    asyncio.run(measure(args))
    return 0
