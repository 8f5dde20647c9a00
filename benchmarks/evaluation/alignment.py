"""The alignment study: did the votes mean quality? A game's outputs by votes received, and by rank."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan
from typing import Any, NamedTuple

from benchmarks.evaluation.alignment_games import DATA, GAMES, Source, play, read_saved, sampling_for, sources_of
from benchmarks.evaluation.alignment_ranks import (
    HIDDEN_WORDS_HELD,
    Measure,
    Measured,
    coefficient,
    judges_ranking,
    kendall,
    mean_of,
    mean_within,
    measured,
    most_voted_is_worst,
    pooled,
    rank_by_votes,
    rouge_to_summary,
    share_of,
    spearman,
    spy_minus_civilians,
    summary_of,
    votes_received,
    worst_by_chance,
)
from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.flags import Calls, Run
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.questions import ranking_prompt, shuffled
from benchmarks.evaluation.results import Results, Score, score_of
from benchmarks.evaluation.rouge_scores import is_chinese, metrics
from spy_env import ABSTAIN, UNREADABLE, Game, Rules, Stage, load_task
from trainers import disk
from trainers.engines import Sampling

NAME = "alignment"
SETS = tuple(data_set.name for data_set in DATA.values())
PROTOCOL = {
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


@dataclass(frozen=True, slots=True)
class StudyItems:
    """The documents to play on, by task, or the saved games, by set; and how many were left out for which reason."""

    sources: Mapping[str, Sequence[Source]]
    games_per_task: int
    saved: Mapping[str, Sequence[Game]]
    excluded: Mapping[str, Mapping[str, int]]


def items(run: Run) -> StudyItems:
    """Read the documents of each task, or the saved games that the run names.

    Raises:
        ValueError: a task, its documents or the saved games can't be used.
    """
    games_per_task = GAMES if run.limit is None else run.limit
    excluded: dict[str, dict[str, int]] = {}
    saved: dict[str, list[Game]] = {}
    tasks = run.tasks
    if run.games:
        saved, excluded["saved games"] = read_saved(run.games, run.limit)
        tasks = (
            tuple(dict.fromkeys(games[0].task for games in saved.values())) if run.data else ()
        )  # for summaries alone
    sources: dict[str, list[Source]] = {}
    for task in tasks:
        name = load_task(task).name
        if name in DATA and DATA[name].name not in run.chosen(SETS):
            continue
        if (of_task := sources_of(task, run, None if run.games else games_per_task)) is None:
            run.say(f"{NAME}: {run.data} has no documents for {name}")
            continue
        sources[task], excluded[name] = of_task
    if not saved and not sources:
        raise ValueError(
            f"{NAME}: no documents for any of {list(tasks)} in {run.data or 'the chosen sets'}; its sets are {list(SETS)}, and "
            "a folder of --data has one JSONL file for each"
        )
    for line in _left_out(excluded):
        run.say(f"{NAME}: {line}")
    return StudyItems(sources, games_per_task, saved, excluded)


def _left_out(excluded: Mapping[str, Mapping[str, int]]) -> list[str]:
    return [
        f"{name}: {count} left out: {reason}" for name, reasons in excluded.items() for reason, count in reasons.items()
    ]


def calls(run: Run, items: StudyItems, against: bool, judged: bool) -> Calls:
    """Count two replies of each player of each game, by the model alone, and one question per game."""
    if items.saved:
        return Calls(0, sum(map(len, items.saved.values())) if judged else 0)
    games = items.games_per_task * len(items.sources)
    return Calls(2 * Rules().players * games, games if judged else 0)


class Played(NamedTuple):
    """The games of each task that are over, how many the infrastructure failed, and how replies were sampled."""

    games: Mapping[str, Sequence[Game]]
    failed: Mapping[str, int]
    sampling: Mapping[Stage, Sampling]


def generate(run: Run, items: StudyItems, who: Contestant) -> Played | None:
    """Play the model's games with itself; a base plays none, and nobody does where saved games are studied."""
    if items.saved or who.role != "model":
        return None
    games: dict[str, Sequence[Game]] = {}
    failed: dict[str, int] = {}
    for task, sources in items.sources.items():
        name = load_task(task).name
        games[name], failed[name] = play(who, task, sources, items.games_per_task, run, run.output / NAME)
    return Played(games, failed, sampling_for(who))


def score(run: Run, items: StudyItems, answers: Mapping[str, Any], judge: Judge | None) -> Results:
    """Say how votes and quality go together, by task and measure, and write each game's outcome as a line of JSON."""
    who = "saved games" if items.saved else "model"
    played: Played = Played(items.saved, {}, {}) if items.saved else answers["model"]
    usable = {name: [game for game in games if game.readable] for name, games in played.games.items()}
    rankings = _rankings([game for games in usable.values() for game in games], run.seed, judge)
    summaries = {source.document.text: source.summary for of in items.sources.values() for source in of}
    scores: list[Score] = []
    rows: list[dict[str, Any]] = []
    for name, games in usable.items():
        by_measure = [measured(games, measure) for measure in [*rankings, *_measures(games, summaries)]]
        left_out = {"failed": played.failed.get(name, 0), "no readable vote": len(played.games[name]) - len(games)}
        caught = share_of([float(game.caught) for game in games], [game.document.text for game in games], run.seed)
        scores.append(score_of(name, "games: spy alone most voted", who, caught, left_out | _replies_counted(games)))
        for of in by_measure:
            scores += _scores(name, of, who, run.seed)
        for i, game in enumerate(games):
            row = {"set": name, "game": game.seed, "document": game.document.id, "spy": game.spy}
            outcomes = {of.measure.name: of.outcomes[i] for of in by_measure}
            rows.append({**row, "votes": votes_received(game), "measures": outcomes})
    folder = run.output / NAME
    folder.mkdir(parents=True, exist_ok=True)
    disk.write_whole(folder / "outcomes.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    protocol = {**_origin(run, items, played), "judge": judge.name if judge else "none", **PROTOCOL}
    return Results(NAME, scores, protocol, _notes(items, judge is not None))


def _rankings(games: Sequence[Game], seed: int, judge: Judge | None) -> list[Measure]:
    if judge is None:
        return []
    orders = [shuffled(game, seed) for game in games]
    prompts = [ranking_prompt(game, order) for game, order in zip(games, orders, strict=True)]
    return [judges_ranking(games, orders, judge.ask(prompts, "rankings"))]


def _measures(games: Sequence[Game], summaries: Mapping[str, str]) -> list[Measure]:
    """Return the measures that take no judge; ROUGE where any document has a summary."""
    references = [summary for game in games if (summary := summary_of(game, summaries))]
    if not references:
        return [HIDDEN_WORDS_HELD]
    variants = metrics(any(map(is_chinese, references)))
    return [*(rouge_to_summary(metric, summaries) for metric in variants), HIDDEN_WORDS_HELD]


def _replies_counted(games: Sequence[Game]) -> dict[str, int]:
    """Count the replies that a reader of the numbers must know of."""
    votes = Counter(vote for game in games for vote in game.votes().values())
    performances = [performance for game in games for performance in game.performances().values()]
    cut = Counter(
        stage for game in games for stage in game.replies for reply in game.replies[stage].values() if reply.truncated
    )
    return {
        "empty outputs": sum(not performance.text for performance in performances),
        "outputs without the task's mark": sum(not performance.marked for performance in performances),
        "truncated outputs": cut[Stage.PERFORMING],
        "truncated votes": cut[Stage.DETECTION],
        "unreadable votes": votes[UNREADABLE],
        "abstentions": votes[ABSTAIN],
    }


def _scores(name: str, of: Measured, who: str, seed: int) -> list[Score]:
    """Return one set's numbers by one measure; the first carries how many games have none."""
    games = of.games
    units = [game.unit for game in games]
    numbers = {
        "Spearman of votes and rank, pooled within games": pooled(spearman, games, seed),
        "Kendall's tau-b of votes and rank, pooled within games": pooled(kendall, games, seed),
        "Spearman of votes and rank, mean of games": mean_within(lambda game: coefficient(spearman(game)), games, seed),
        "Kendall's tau-b of votes and rank, mean of games": mean_within(
            lambda game: coefficient(kendall(game)), games, seed
        ),
        "mean rank, spy": mean_within(lambda game: game.ranks[game.spy], games, seed),
        "spy's rank minus civilians' mean rank": mean_within(spy_minus_civilians, games, seed),
    }
    shares = {
        "most voted is ranked worst": share_of(list(map(most_voted_is_worst, games)), units, seed),
        "an output at random is ranked worst": mean_within(worst_by_chance, games, seed),
    }
    if of.measure.scored:
        spies = [values[game.spy] for game, values in zip(games, of.values, strict=True)]
        others = [(sum(values) - spy) / (len(values) - 1) for values, spy in zip(of.values, spies, strict=True)]
        shares |= {"score, spy": mean_of(spies, units, seed), "score, civilians": mean_of(others, units, seed)}
    by_votes = {
        f"mean rank, {votes} vote{'' if votes == 1 else 's'}": interval
        for votes, interval in rank_by_votes(games, seed).items()
    }
    scores = [
        score_of(name, f"{of.measure.name}: {metric}", who, interval, percent=percent)
        for percent, intervals in ((False, numbers), (True, shares), (False, by_votes))
        for metric, interval in intervals.items()
    ]
    equal = sum(isnan(coefficient(spearman(game))) for game in games)
    counts = {**of.excluded, "games with all votes or all ranks equal": equal}
    return [replace(scores[0], counts={reason: count for reason, count in counts.items() if count}), *scores[1:]]


def _origin(run: Run, items: StudyItems, played: Played) -> dict[str, Any]:
    """Say where the games come from, and how they were played where we know it."""
    if items.saved:
        return {"games": f"saved, from {', '.join(map(str, run.games))}"}
    rules = {load_task(task).name: asdict(Rules().for_task(load_task(task))) for task in items.sources}
    sampling = {stage.value: asdict(of) for stage, of in played.sampling.items()}
    return {"games": "the model plays all seats, our prompts", "rules": rules, "decoding": sampling}


def _notes(items: StudyItems, judged: bool) -> list[str]:
    notes = _left_out(items.excluded)
    if not judged:
        notes.append("No judge: ROUGE and hidden words stand in for quality; the published study has a judge rank.")
    for task, sources in items.sources.items():
        if not items.saved and len(sources) < items.games_per_task:
            name, games = load_task(task).name, items.games_per_task
            notes.append(
                f"{name}: {len(sources)} documents for {games} games: they come again, with another spy and span."
            )
    return notes
