"""``spyrl rescore``: saved games under other reward rules. It needs no model, since rewards follow from the games."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from spy_env.ballot import printable
from spy_env.diagnostics.estimates import Estimate, average
from spy_env.diagnostics.shown import over
from spy_env.game import STAGES, Game, Rewards
from spy_env.records import read_games
from spy_env.rewards import PRESETS, RewardRules
from spy_env.seats import ROLES, Seat
from spy_env.viewer.origin import origin_of, trained_files

ROUNDING = 1e-12  # smaller changes are none


@dataclass(frozen=True, slots=True)
class Rescored:
    """A finished game, and its rewards under its run's rules and under the new ones."""

    file: Path
    game: Game
    own: Rewards
    new: Rewards

    def change(self, stage: str) -> dict[Seat, float]:
        """Return each seat's gain in a stage."""
        before, after = getattr(self.own, stage), getattr(self.new, stage)
        return {seat: after[seat] - before[seat] for seat in before}

    @property
    def moved(self) -> float:
        """The sum of the absolute changes of all rewards."""
        return sum(abs(value) for stage in STAGES for value in self.change(stage).values())


def rescored(files: Iterable[Path], preset: str | None, prices: dict[str, float]) -> Iterator[Rescored]:
    """Yield every finished game, rescored. Without a preset, ``prices`` replace some of the run's own."""
    for file in files:
        own = origin_of(file).rewards
        new = replace(PRESETS[preset] if preset else own, **prices)
        for game in over(read_games(file)):
            yield Rescored(file, game, game.rewards(own), game.rewards(new))


def by_role(games: Sequence[Rescored]) -> list[tuple[str, str, Estimate, Estimate, Estimate]]:
    """Return mean rewards by stage and role under the run's rules, under the new ones, and the difference, paired by game."""
    rows = []
    for stage in STAGES:
        for role in ROLES:
            pairs = [pair for one in games if (pair := _means(one, stage, role))]
            if pairs:
                own, new = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
                changes = [after - before for before, after in pairs]
                rows.append((str(stage), role, average(own), average(new), average(changes)))
    return rows


def _means(one: Rescored, stage: str, role: str) -> tuple[float, float] | None:
    seats = [seat for seat in getattr(one.own, stage) if one.game.role(seat) == role]
    if not seats:
        return None
    before, after = (sum(getattr(paid, stage)[seat] for seat in seats) / len(seats) for paid in (one.own, one.new))
    return before, after


def row_of(one: Rescored) -> dict[str, Any]:
    """Return a game's line in the file of differences."""
    stages = {
        str(stage): {
            seat: {"role": one.game.role(seat), "own": own, "new": getattr(one.new, stage)[seat]}
            for seat, own in getattr(one.own, stage).items()
        }
        for stage in STAGES
    }
    return {"file": str(one.file), "game": one.game.seed, "moved": one.moved, **stages}


def main(argv: Sequence[str]) -> int:
    """Score saved games again under other reward rules."""
    args = _parser().parse_args(argv)
    prices = {price.name: value for price in fields(RewardRules) if (value := getattr(args, price.name)) is not None}
    if args.rewards is None and not prices:
        raise ValueError("no other rules are given; name some, such as --rewards vision_zero or --lam 0.2")
    if args.show < 0:
        raise ValueError(f"--show is {args.show}; give a count, or 0 for none")
    for name, price in prices.items():
        if not isfinite(price):
            raise ValueError(f"--{name} is {price}; give a number")
    files = [file for path in args.games for file in trained_files(path)]
    output = Path(args.output) if args.output else None
    if output and output.exists():
        raise ValueError(f"{output} is there already; choose another --output")
    games = list(rescored(files, args.rewards, prices))
    if not games:
        raise ValueError(f"none of the games in {len(files)} file(s) is over, and rewards follow from all votes")
    print(_table(games))
    print(_largest(games, args.show))
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("x", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row_of(one)) + "\n" for one in games)
        print(f"differences of each game: {output}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("spyrl rescore", description=main.__doc__)
    parser.add_argument("games", nargs="+", type=Path, help="files of games (.jsonl), or runs' folders")
    parser.add_argument(
        "--rewards", "--preset", choices=sorted(PRESETS), help="rules to begin with; default: the run's"
    )
    for price in fields(RewardRules):
        parser.add_argument(f"--{price.name}", type=float, help="instead of those rules'")
    parser.add_argument("--output", help="a new .jsonl file for the differences of each game")
    parser.add_argument("--show", type=int, default=5, help="how many of the games that change most are shown")
    return parser


def _table(games: Sequence[Rescored]) -> str:
    lines = [
        f"{len(games)} games; means over games with 95 % intervals",
        f"{'stage':<12}{'role':<10}{'own rules':>28}{'these rules':>28}{'difference':>28}",
    ]
    lines += [
        f"{stage:<12}{role:<10}{_cell(own):>28}{_cell(new):>28}{_cell(change):>28}"
        for stage, role, own, new, change in by_role(games)
    ]
    return "\n".join(lines)


def _cell(estimate: Estimate) -> str:
    return str(estimate) if estimate.n > 1 else f"{estimate.value:z.3f}"


def _largest(games: Sequence[Rescored], count: int) -> str:
    changed = sorted((one for one in games if one.moved > ROUNDING), key=lambda one: -one.moved)
    if not changed:
        return "no game is paid otherwise"
    lines = [f"{len(changed)} games are paid otherwise; the largest changes (+ earns more under these rules):"]
    for one in changed[:count]:
        told = [
            f"{seat} ({one.game.role(seat)}) {stage} {value:+.3f}"
            for stage in STAGES
            for seat, value in one.change(stage).items()
            if abs(value) > ROUNDING
        ]
        lines.append(printable(f"  {one.game.seed} in {one.file}: {', '.join(told)}"))
    return "\n".join(lines)
