"""Did texts become better by a measure that votes don't use? ``python -m benchmarks.quality RUN...``.

Reads the held-out games of runs before and after training and compares each civilian's text with its document's own
summary (ROUGE-L), beside what ``spyrl inspect`` shows of texts. Changes are paired by deal. Needs the eval extra.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rouge_score.rouge_scorer import RougeScorer

from spy_env import Game, read_games
from spy_env.diagnostics.estimates import Estimate, average
from spy_env.diagnostics.proxies import hidden_words
from spy_env.diagnostics.signal import text_measures

CIVILIANS, SPY = "civilian", "spy"
ROUGE = {"ROUGE-L F to the summary": "fmeasure", "ROUGE-L precision": "precision", "ROUGE-L recall": "recall"}


def main(argv: Sequence[str]) -> int:
    """Print one table per run: each measure before and after training, and its change."""
    args = _parser().parse_args(argv)
    summaries = read_summaries(args.summaries)
    for run in args.runs:
        before, after = (list(read_games(run / "games" / f"eval_{point}.jsonl")) for point in ("before", "after"))
        print(f"\n{run}: {len(before)} held-out deals, civilians' texts\n")
        print("| measure | before | after | change, 95 % interval |\n|---|---|---|---|")
        for name, (old, new, change) in compare(before, after, summaries).items():
            print(f"| {name} | {old.value:.3f} | {new.value:.3f} | {change} |")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.quality", description=main.__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a folder of spyrl train with --eval.games")
    parser.add_argument(
        "--summaries", type=Path, help="JSON lines with id and summary; default: those of the first run's abstracts"
    )
    return parser


def read_summaries(file: Path | None) -> dict[str, str]:
    """Read the summary of each document by its id.

    Raises:
        ValueError: a row has no id or no summary.
    """
    if file is None:
        from trainers.first_run.downloads import paper_abstracts

        file = paper_abstracts()
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    if missing := next((row for row in rows if not (row.get("id") and row.get("summary"))), None):
        raise ValueError(f"{file}: a row needs an id and a summary; there is {str(missing)[:200]}")
    return {row["id"]: row["summary"] for row in rows}


def compare(
    before: Sequence[Game], after: Sequence[Game], summaries: Mapping[str, str]
) -> dict[str, tuple[Estimate, Estimate, Estimate]]:
    """Return each measure's mean over deals before and after, and the mean change. Deals without a summary are left out.

    Raises:
        ValueError: the games aren't the same deals, or no document has a summary.
    """
    if [(game.seed, game.document) for game in before] != [(game.seed, game.document) for game in after]:
        raise ValueError("the games before and after training aren't the same deals; name a whole run")
    pairs = [
        (quality(old, summaries[old.document.id]), quality(new, summaries[new.document.id]))
        for old, new in zip(before, after, strict=True)
        if old.document.id in summaries and hidden_words(old)
    ]
    if not pairs:
        raise ValueError(f"none of {len(before)} documents has a summary; give --summaries with their ids")
    return {
        name: (
            average([old[name] for old, _ in pairs]),
            average([new[name] for _, new in pairs]),
            average([new[name] - old[name] for old, new in pairs]),
        )
        for name in pairs[0][0]
    }


def quality(game: Game, summary: str) -> dict[str, float]:
    """Measure a game's civilians: the mean over their texts."""
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    texts = [shown.text for seat, shown in game.performances().items() if seat != game.spy]
    scores = [scorer.score(summary, text)["rougeL"] for text in texts]
    rouge = {name: sum(getattr(score, part) for score in scores) / len(scores) for name, part in ROUGE.items()}
    return rouge | {name: by_role[CIVILIANS] for name, by_role in text_measures(game).items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
