"""The same deals on documents never trained on, played before and after training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spy_env import Document, Game, RewardRules
from trainers.embedded.config import Config
from trainers.estimates import Estimate, measure
from trainers.rollout import Table, deal_to_fit, play_games


def evaluation_games(config: Config, documents: Sequence[Document], table: Table) -> list[Game]:
    """Deal one game for each held-out document; the same for every policy."""
    return [
        deal_to_fit(document, config.game.task, config.rules, f"{config.train.seed}/eval/{i}", None, table)
        for i, document in enumerate(documents)
    ]


def play_evaluation(games: Sequence[Game], table: Table) -> list[Game]:
    """Play dealt games to their end."""
    return [played.game for played in play_games(games, table)]


def comparison(
    before: Sequence[Game], after: Sequence[Game], rules: RewardRules
) -> dict[str, tuple[Estimate, Estimate]]:
    """Every measure before and after."""
    first, last = measure(before, rules), measure(after, rules)
    return {name: (first[name], last[name]) for name in first}


def comparison_lines(compared: Mapping[str, tuple[Estimate, Estimate]]) -> list[tuple[str, str, str, str]]:
    """The comparison as rows of text: measure, before, after, number of votes or games."""
    return [(name, str(before), str(after), str(after.n)) for name, (before, after) in compared.items()]
