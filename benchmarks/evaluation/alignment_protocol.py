"""What a reader must know of the alignment study to repeat it, in words; the code it describes is beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEASURED: Mapping[str, str] = {
    "ranking": "one question a game to the judge: document, task and all outputs in an order shuffled by seed and "
    "game, without roles and votes; our own prompt; every number once or the game is left out as unreadable; equal "
    "texts share the mean of their ranks",
    "ROUGE": "each output to the data set's own summary of the whole document, where it has one",
    "hidden words held": "share of the content words that stand in the hidden span and nowhere else in the document "
    "(numbers, words of 4 letters or more that are no function words; pairs of characters in Chinese)",
    "ranks": "1 is best; values become ranks within their game, ties share the mean",
    "sign": "positive: more votes, worse rank (votes mean quality); 0: votes say nothing; negative: votes go to the better",
    "Spearman, pooled within games": "votes and ranks as ranks within each game, about the game's mean; covariances "
    "and variances summed over the games in which neither votes nor ranks are all equal",
    "Kendall's tau-b, pooled within games": "pairs of outputs of one game only, counted over the same games",
    "mean of games": "the mean of each game's own coefficient, where votes and ranks both differ",
    "most voted is ranked worst": "games with a vote for somebody and unequal ranks; of several most-voted outputs, the share that is worst",
    "n": "games; of a mean rank by votes, outputs",
    "interval": "95 % bootstrap, resampling games (documents with all their games, where documents come again)",
}


def protocol(games: Mapping[str, Any], judge: str) -> dict[str, Any]:
    """How the games were made, who judged, and how the numbers are computed."""
    return {**games, "judge": judge, **MEASURED}
