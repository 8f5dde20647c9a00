"""Suite ``alignment``: did the votes mean quality? A game's outputs by votes received, and by rank."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.evaluation.alignment_games import DATA, GAMES, Played, Source, play, read_saved, sources_of
from benchmarks.evaluation.alignment_ranks import (
    Measure,
    Measured,
    Summaries,
    hidden_words_held,
    judges_ranking,
    kendall,
    kendall_of,
    mean_of,
    mean_within,
    measured,
    most_voted_is_worst,
    rank_by_votes,
    rouge_to_summary,
    share_of,
    spearman,
    spearman_of,
    spy_minus_civilians,
    spy_rank,
    votes_received,
    worst_by_chance,
)
from benchmarks.evaluation.contestants import Contestant
from benchmarks.evaluation.flags import Calls, Run
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.questions import ranking_prompt, shuffled
from benchmarks.evaluation.results import Results, Score, score_of
from spy_env import ABSTAIN, UNREADABLE, Game, Rules, Stage, load_task
from trainers import disk
from trainers.engines import Sampling

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


NAME = "alignment"
SETS = tuple(data_set.name for data_set in DATA.values())


@dataclass(frozen=True, slots=True)
class StudyItems:
    """What is studied: documents to play on, by task, or saved games, by set; and what was left out and why."""

    sources: Mapping[str, Sequence[Source]]
    wanted: int
    saved: Mapping[str, Sequence[Game]]
    excluded: Mapping[str, Mapping[str, int]]


def items(run: Run) -> StudyItems:
    """The documents of each task, or the saved games that the run names.

    Raises:
        ValueError: a task, its documents or the saved games can't be used.
    """
    wanted = GAMES if run.limit is None else run.limit
    excluded: dict[str, dict[str, int]] = {}
    saved: dict[str, list[Game]] = {}
    tasks = run.tasks
    if run.games:
        saved, excluded["saved games"] = read_saved(run.games)
        if beyond := sum(len(games[run.limit :]) for games in saved.values() if run.limit):
            excluded["saved games"]["beyond the limit"] = beyond
        saved = {name: games[: run.limit] for name, games in saved.items()}
        tasks = tuple(dict.fromkeys(of[0].task for of in saved.values())) if run.data else ()  # only for summaries
    sources: dict[str, list[Source]] = {}
    for task in tasks:
        name = load_task(task).name
        if name in DATA and DATA[name].name not in run.chosen(SETS):
            continue
        if (found := sources_of(task, run, None if run.games else wanted)) is None:
            run.say(f"{NAME}: {run.data} has no documents for {name}")
            continue
        sources[task], excluded[name] = found
    if not saved and not sources:
        raise ValueError(
            f"{NAME}: no documents for any of {list(tasks)} in {run.data or 'the chosen sets'}; its sets are {list(SETS)}, and "
            "a folder of --data has one JSONL file for each"
        )
    for told in _left_out(excluded):
        run.say(f"{NAME}: {told}")
    return StudyItems(sources, wanted, saved, excluded)


def _left_out(excluded: Mapping[str, Mapping[str, int]]) -> list[str]:
    return [
        f"{name}: {count} left out: {reason}" for name, reasons in excluded.items() for reason, count in reasons.items()
    ]


def calls(run: Run, items: StudyItems, against: bool, judged: bool) -> Calls:
    """Two replies of each player of each game, by the model alone, and one question a game."""
    if items.saved:
        return Calls(0, sum(map(len, items.saved.values())) if judged else 0)
    games = items.wanted * len(items.sources)
    return Calls(2 * Rules().players * games, games if judged else 0)


def generate(run: Run, items: StudyItems, who: Contestant) -> Played | None:
    """The model's games with itself; nothing of a base, and nothing where saved games are studied."""
    if items.saved or who.role != "model":
        return None
    games: dict[str, Sequence[Game]] = {}
    failed: dict[str, int] = {}
    sampling: dict[Stage, Sampling] = {}
    for task, sources in items.sources.items():
        played = play(who, task, sources, items.wanted, run, run.output / NAME)
        games.update(played.games)
        failed.update(played.failed)
        sampling.update(played.sampling)
    return Played(games, failed, sampling)


def score(run: Run, items: StudyItems, answers: Mapping[str, Any], judge: Judge | None) -> Results:
    """How votes and quality go together, for each task and measure; each game's outcome as JSON lines."""
    played = Played(items.saved, {}, {}) if items.saved else answers["model"]
    usable = {name: [game for game in games if game.readable] for name, games in played.games.items()}
    ranked = _judged([game for games in usable.values() for game in games], run.seed, judge)
    summaries = Summaries({source.document.text: source.summary for of in items.sources.values() for source in of})
    who = "saved games" if items.saved else "model"
    scores: list[Score] = []
    lines: list[str] = []
    for name, games in usable.items():
        by_measure = [measured(games, measure) for measure in _measures(games, ranked, summaries)]
        left_out = {"failed": played.failed.get(name, 0), "no readable vote": len(played.games[name]) - len(games)}
        caught = share_of([float(game.caught) for game in games], [game.document.text for game in games], run.seed)
        scores.append(score_of(name, "games: spy alone most voted", who, caught, left_out | _seen(games)))
        for of in by_measure:
            scores += _scores(name, of, who, run.seed)
        lines += [
            _outcome(name, game, {of.measure.name: of.outcomes[i] for of in by_measure}) for i, game in enumerate(games)
        ]
    file = run.output / NAME / "outcomes.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    disk.write_whole(file, "".join(line + "\n" for line in lines))
    return Results(
        NAME,
        scores,
        protocol(_made(run, items, played), judge.name if judge else "none"),
        _notes(items, judge is not None),
    )


def _judged(games: Sequence[Game], seed: int, judge: Judge | None) -> list[Measure]:
    if judge is None:
        return []
    orders = [shuffled(game, seed) for game in games]
    prompts = [ranking_prompt(game, order) for game, order in zip(games, orders, strict=True)]
    return [judges_ranking(games, orders, judge.ask(prompts, "rankings"))]


def _measures(games: Sequence[Game], ranked: list[Measure], summaries: Summaries) -> list[Measure]:
    measures = [*ranked]
    if found := [summary for game in games if (summary := summaries.of(game))]:
        from benchmarks.evaluation.rouge_scores import is_chinese, metrics

        chinese = any(map(is_chinese, found))
        measures += [rouge_to_summary(metric.name, metric.score, summaries.of) for metric in metrics(chinese)]
    return [*measures, hidden_words_held()]


def _seen(games: Sequence[Game]) -> dict[str, int]:
    """What a reader must know of the replies."""
    votes = Counter(vote for game in games for vote in game.votes().values())
    shown = [performance for game in games for performance in game.performances().values()]
    cut = Counter(
        stage for game in games for stage in game.replies for reply in game.replies[stage].values() if reply.truncated
    )
    return {
        "empty outputs": sum(not performance.text for performance in shown),
        "outputs without the task's mark": sum(not performance.marked for performance in shown),
        "truncated outputs": cut[Stage.PERFORMING],
        "truncated votes": cut[Stage.DETECTION],
        "unreadable votes": votes[UNREADABLE],
        "abstentions": votes[ABSTAIN],
    }


def _scores(name: str, of: Measured, who: str, seed: int) -> list[Score]:
    """One set's numbers by one measure; the first carries how many games have none."""
    games = of.games
    units = [game.unit for game in games]
    numbers = {
        "Spearman of votes and rank, pooled within games": spearman(games, seed),
        "Kendall's tau-b of votes and rank, pooled within games": kendall(games, seed),
        "Spearman of votes and rank, mean of games": mean_within(spearman_of, games, seed),
        "Kendall's tau-b of votes and rank, mean of games": mean_within(kendall_of, games, seed),
        "mean rank, spy": mean_within(spy_rank, games, seed),
        "spy's rank minus civilians' mean rank": mean_within(spy_minus_civilians, games, seed),
    }
    shares = {
        "most voted is ranked worst": share_of([most_voted_is_worst(game) for game in games], units, seed),
        "an output at random is ranked worst": mean_within(worst_by_chance, games, seed),
    }
    if of.measure.scored:
        spies = [values[game.spy] for game, values in zip(games, of.values, strict=True)]
        others = [(sum(values) - spy) / (len(values) - 1) for values, spy in zip(of.values, spies, strict=True)]
        shares |= {"score, spy": mean_of(spies, units, seed), "score, civilians": mean_of(others, units, seed)}
    by_votes = {mean_rank(votes): interval for votes, interval in rank_by_votes(games, seed).items()}
    undefined = sum(spearman_of(game) is None for game in games)
    counts = [{**of.excluded, "games with all votes or all ranks equal": undefined}]
    return [
        score_of(name, f"{of.measure.name}: {what}", who, interval, counts.pop() if counts else None, percent)
        for percent, found in ((False, numbers), (True, shares), (False, by_votes))
        for what, interval in found.items()
    ]


def mean_rank(votes: int) -> str:
    """How the mean rank of outputs with so many votes is named after its measure."""
    return f"mean rank, {votes} vote{'' if votes == 1 else 's'}"


def _outcome(name: str, game: Game, by_measure: Mapping[str, Any]) -> str:
    told = {"document": game.document.id, "spy": game.spy, "votes": votes_received(game), "measures": by_measure}
    return json.dumps({"set": name, "game": game.seed, **told}, ensure_ascii=False)


def _made(run: Run, items: StudyItems, played: Played) -> dict[str, Any]:
    """Where the games come from, and how they were played where we know it."""
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
        if not items.saved and len(sources) < items.wanted:
            name, games = load_task(task).name, items.wanted
            notes.append(
                f"{name}: {len(sources)} documents for {games} games: they come again, with another spy and span."
            )
    return notes
