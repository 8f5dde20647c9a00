"""Small-scale ablations in the tiny world: ``python tests/trainers/tiny_ablations.py FOLDER`` makes the trainer's tables.

All begin with one model, taught by example until it finds two spies in five on scripted results, and to give itself
away as a spy: it then says "nothing" seven times in ten. First each stage is learned alone, the other played by
script. Then the model plays all seats, in a run of the command per setting and seed, and is measured against the scripts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import torch

from spy_env import Game, RawReply, Stage, deal, observe
from spy_env.ballot import read_ballot
from spy_env.observations import read_document
from tests.trainers import tiny_world
from tests.trainers.embedded.tiny_learning import config_for, detection_accuracy, learn
from tests.trainers.tiny_world import NOTHING, TASK, WORDS, HalfScripted, documents, said
from trainers.config import Config
from trainers.embedded import command
from trainers.engines import Engine
from trainers.engines.local import load_engine
from trainers.metrics import average
from trainers.prompt_budget import deal_to_fit
from trainers.rollout import SeatPolicies, rollout
from trainers.settings import read_config

P, D = Stage.PERFORMING, Stage.DETECTION
TELLS, SLIPS = 0.7, 0.05  # how often the taught model says "nothing" as a spy, and as a civilian
ENOUGH = 0.4  # of the votes right, when teaching ends
ALONE: dict[Stage, dict[str, dict[str, bool]]] = {
    P: {
        "as is": {},
        "no RAE": {"rae": False},
        "normalised": {"normalise_performing": True},
        "shuffled advantages": {"shuffle_advantages": True},
    },
    D: {"as is": {}, "shuffled advantages": {"shuffle_advantages": True}},
}
ITERATIONS = {P: 25, D: 60}
SELF_PLAY_ITERATIONS = 60
SETTINGS: dict[str, dict[str, Any]] = {
    "cycle": {},
    "joint": {"schedule": "joint"},
    "no_rae": {"rae": False},
    "normalised": {"normalise_performing": True},
    "shuffled": {"shuffle_advantages": True},
    "hysteresis": {"schedule": "hysteresis"},
}
HEADS = {
    "alone": ("stage", "setting", "iterations", "first iteration", "last ten"),
    "self_play": ("setting", "votes for the spy", "spies that say it", "civilians that say it"),
}


def main(argv: Sequence[str]) -> str:
    """Make both tables; gives them as Markdown."""
    args = _parser().parse_args(argv)
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    model = folder / "model"
    if not (model / "config.json").exists():
        taught_model(model)
    tables = {
        "alone": alone(model, args.seeds, args.iterations),
        "self_play": self_play(folder, model, args.seeds, args.iterations, args.deals),
    }
    text = "\n".join(_markdown(HEADS[name], rows) for name, rows in tables.items())
    (folder / "ablations.md").write_text(text, encoding="utf-8")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tiny_ablations", description=__doc__)
    parser.add_argument("folder", help="results; what is there already isn't trained again")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, help="at most so many of each training")
    parser.add_argument("--deals", type=int, default=200, help="of the measurement after self-play")
    return parser


def taught_model(folder: Path) -> None:
    """The model that all begin with."""
    tokens, rng = tiny_world.tokenizer(), Random(0)
    model = tiny_world.fresh_model(tokens, 0)
    for step, _ in enumerate(tiny_world.teaching(model, tokens, _prompts(400), _taught_reply, rng, batch=16), start=1):
        if step % 25 == 0:
            tiny_world.saved(model, tokens, folder)
            found, *_ = measured(load_engine(str(folder)), _config(folder, folder), 48)
            if found >= ENOUGH:
                print(f"taught in {step} steps", flush=True)
                return


def _prompts(count: int) -> list[str]:
    """Performing prompts of both roles, and vote prompts on results of which the spy's alone is "nothing"."""
    rng = Random(1)
    prompts: list[str] = []
    for i, document in enumerate(documents(count, seed=1)):
        game = deal(document, TASK, tiny_world.RULES, f"taught/{i}")
        prompts += sorted(set(observe(game, P).values()))
        words = {seat: NOTHING if seat == game.spy else rng.choice(WORDS) for seat in game.players}
        game = game.with_replies({seat: RawReply(said(word)) for seat, word in words.items()})
        prompts += [observe(game, D)[next(seat for seat in game.players if seat != game.spy)]] * 2
    return prompts


def _taught_reply(prompt: str, rng: Random) -> str:
    if ballot := read_ballot(prompt):
        return rf"\boxed{{{next(number for number, text in ballot if NOTHING in text.split())}}}"
    slips = rng.random() < (TELLS if "*" in read_document(prompt) else SLIPS)
    return said(NOTHING if slips else rng.choice(WORDS))


def alone(model: Path, seeds: Sequence[int], most: int | None) -> list[list[str]]:
    """Each stage by itself: iterations until all is learned, the score of the first and of the last ten, over seeds."""
    rows = []
    for stage, settings in ALONE.items():
        for name, switches in settings.items():
            iterations = min(ITERATIONS[stage], most or ITERATIONS[stage])
            scores = [
                learn(str(model), stage, config_for(stage, seed, **switches), iterations, documents_seed=100 + seed)
                for seed in seeds
            ]
            last = average([sum(own[-10:]) / len(own[-10:]) for own in scores])
            long, first = average([len(own) for own in scores]), average([own[0] for own in scores])
            rows.append([str(stage), name, *(str(estimate) for estimate in (long, first, last))])
            print(*rows[-1], flush=True)
    return rows


def self_play(folder: Path, model: Path, seeds: Sequence[int], most: int | None, deals: int) -> list[list[str]]:
    """Train every setting with every seed by the command; then measure each final model against the scripts."""
    iterations = min(SELF_PLAY_ITERATIONS, most or SELF_PLAY_ITERATIONS)
    if not (folder / "documents.jsonl").exists():
        lines = [json.dumps({"id": document.id, "text": document.text}) for document in documents(2000)]
        (folder / "documents.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, algo in SETTINGS.items():
        row = _settings(folder, model, iterations)
        (folder / "setting.json").write_text(json.dumps({**row, "algo": row["algo"] | algo}), encoding="utf-8")
        for seed in seeds:
            output = folder / "runs" / name / f"seed_{seed}"
            flags = ["--train.seed", str(seed), "--ckpt.output_dir", str(output), "--ckpt.load_enable"]
            if not (output / "final").exists() and command.main(["--config", str(folder / "setting.json"), *flags]):
                raise SystemExit(f"{output} failed")
    config = _config(folder, model)
    rows = [["before", *(f"{value:.3f}" for value in measured(load_engine(str(model)), config, deals))]]
    for name in SETTINGS:
        runs = [folder / "runs" / name / f"seed_{seed}" / "final" for seed in seeds]
        values = [measured(load_engine(str(run)), config, deals) for run in runs]
        rows.append([name, *(str(average(column)) for column in zip(*values, strict=True))])
    return rows


def _settings(folder: Path, model: Path, iterations: int = 1) -> dict[str, Any]:
    return {
        "game": {
            **{"task": TASK, "players": tiny_world.RULES.players, "voters": "referees", "referees": 8},
            "unreadable": -1.0,
        },
        "actor": {"model_name_or_path": str(model), "adam": {"lr": 5e-4}},
        "algo": {"schedule": "cycle", "cycle": [5, 5], "kl": {"init_coef": 0.02}},
        "rollout": {"batch_size": 24, "n_samples_per_prompt": 4, "max_new_tokens": 6, "micro_batch_size": 512},
        "train": {"iterations": iterations, "micro_batch_size": 512},
        "data": {"documents": str(folder / "documents.jsonl"), "max_len": 90},
        "eval": {"games": 24},
        "ckpt": {"save_steps": 20, "max_num": 1},
    }


def _config(folder: Path, model: Path) -> Config:
    (folder / "measured.json").write_text(json.dumps(_settings(folder, model)), encoding="utf-8")
    return read_config(str(folder / "measured.json"))


def measured(engine: Engine, config: Config, deals: int) -> tuple[float, float, float]:
    """The share of votes for the spy on scripted results; of spies, and of civilians, that say "nothing"."""
    found = detection_accuracy(_played(engine, config, D, deals))
    shown = [
        (game.role(seat), NOTHING in text.text.split())
        for game in _played(engine, config, P, deals)
        for seat, text in game.performances().items()
    ]
    said_it = {role: [says for own, says in shown if own == role] for role in ("spy", "civilian")}
    return found, *(sum(says) / len(says) for says in said_it.values())


def _played(engine: Engine, config: Config, learned: Stage, deals: int) -> list[Game]:
    """The same deals on documents never trained on, the other stage played by script."""
    script = tiny_world.say_whether_anything_is_hidden if learned is D else tiny_world.vote_for_one_without_the_mark
    seats = SeatPolicies(HalfScripted(engine, script, learned), config.sampling, config.data.max_len)
    games = [
        deal_to_fit(document, TASK, config.game.rules, f"measured/{i}", None, seats.budget)
        for i, document in enumerate(documents(deals, seed=99))
    ]
    return [played.game for played in rollout(games, seats)]


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


if __name__ == "__main__":
    print(main(sys.argv[1:]))
