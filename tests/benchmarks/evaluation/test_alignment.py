"""The alignment study: games played once and kept, games saved by others, and numbers that say what they leave out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from random import Random

import pytest

from benchmarks.evaluation import alignment, intervals
from benchmarks.evaluation.alignment_games import sampling_for
from benchmarks.evaluation.contestants import Contestant, EstimatedReader
from benchmarks.evaluation.flags import Run
from benchmarks.evaluation.generations import Answer, UnreachableError
from spy_env import Stage, read_games, write_games
from spy_env.ballot import read_ballot
from spy_env.observations import read_results
from spy_env.players import scripted_player
from tests.benchmarks.evaluation.benchmark_games import TEXT, played
from tests.chat_server import says
from trainers.engines import Failed, Reply

REPORT = (
    "The fund spent {n} million on harbours. {name} got most of it, for dredging and for cranes. No rule says which harbour "
    "comes first. Staff answer letters in the order of their dates, and small towns write early. The review asks for points."
)
NAMES = ("Orrin", "Sand Key", "Velby", "Tarn", "Ostro", "Merrow")


def write_rows(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    reports = [
        {"id": f"r{i}", "report": REPORT.format(n=i + 2, name=name), "summary": f"{name} got most of {i + 2} million."}
        for i, name in enumerate(NAMES)
    ]
    write_rows(folder / "govreport.jsonl", reports)
    write_rows(
        folder / "eval_writingprompts.jsonl", [{"id": "w", "prompt": "A lighthouse keeper finds a second moon."}]
    )
    return folder


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 200)


@pytest.fixture
def run(tmp_path, data):
    def make(**given):
        said = []
        made = Run(**{"output": tmp_path / "out", "data": data, "limit": 2, "say": said.append, **given})
        made.say.__self__.clear()
        return made

    return make


class CountingEngine:
    """Plays like the scripted players; counts, and fails or dies where a test wants it to."""

    def __init__(self, fails=lambda prompt: False, dies_after=None):
        self.asked, self.player, self.fails, self.dies_after = [], scripted_player(), fails, dies_after

    def generate(self, requests):
        if self.dies_after is not None and len(self.asked) >= self.dies_after:
            raise KeyboardInterrupt
        self.asked += [request.prompt for request in requests]
        return [
            Failed("503") if self.fails(request.prompt) else Reply(self.player(request.prompt)) for request in requests
        ]

    def count_tokens(self, prompt, prefill):
        return 0


def who(engine, fingerprint="one", role="model", **given):
    def load():
        assert engine is not None, "loaded although nothing is missing"
        return engine

    return Contestant(role, "m", fingerprint, EstimatedReader(), **{"max_len": 4096, "load": load, **given})


class Judge:
    """Ranks by a rule; keeps what it was asked."""

    name = "http://judge:scripted"

    def __init__(self, rule):
        self.rule, self.asked = rule, []

    def ask(self, prompts, what):
        self.asked += prompts
        return [self.rule(prompt) for prompt in prompts]


def ranks_longest_first(prompt):
    texts = read_ballot(prompt)
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i][1]))
    return Answer(r"\boxed{" + " > ".join(str(i + 1) for i in order) + "}")


def scored(run, engine=None, judge=None, **given):
    found = alignment.items(run)
    answers = {"model": alignment.generate(run, found, who(engine or CountingEngine(), **given))}
    return alignment.score(run, found, answers, judge)


def number(results, metric, name="summarization"):
    return next(score for score in results.scores if score.set == name and score.metric == metric)


def test_a_study_plays_the_games_and_counts_its_calls_before(run):
    engine, it = CountingEngine(), run()
    found = alignment.items(it)
    assert alignment.calls(it, found, against=True, judged=True) == (40, 4)
    assert alignment.calls(it, found, against=False, judged=False) == (40, 0)
    answers = {"model": alignment.generate(it, found, who(engine))}
    assert len(engine.asked) == 40
    judge = Judge(ranks_longest_first)
    results = alignment.score(it, found, answers, judge)
    assert len(judge.asked) == 4
    games = list(read_games(it.output / "alignment" / "games" / "summarization.jsonl"))
    assert len({game.seed for game in games}) == 2
    assert all(game.stage is Stage.OVER for game in games)
    assert number(results, "games: spy alone most voted").n == 2
    assert results.protocol["judge"] == judge.name
    assert results.protocol["decoding"]["performing"]["max_new_tokens"] == 512, "an eighth of 4096"
    rows = [json.loads(line) for line in (it.output / "alignment" / "outcomes.jsonl").read_text().splitlines()]
    assert len(rows) == 4
    assert set(rows[0]["measures"]) == {
        "judge's ranking",
        "rouge-l F (rouge 1.0.1) to the document's summary",
        "rougeL F (rouge-score 0.1.2, no stemmer) to the document's summary",
        "hidden words held",
    }


def test_a_game_on_disk_is_not_played_again_and_a_larger_limit_adds_to_it(run):
    scored(run())
    saved = run().output / "alignment" / "games" / "summarization.jsonl"
    before = saved.read_bytes()
    scored(run(), _nobody())
    assert saved.read_bytes() == before
    more = CountingEngine()
    scored(run(limit=4), more)
    assert len(more.asked) == 20 + 20, "two games more of each task"


def _nobody():
    return CountingEngine(fails=lambda prompt: pytest.fail("asked again"))


@pytest.mark.parametrize("change", [{"fingerprint": "two"}, {"max_len": 8192}, {"max_new_tokens": 64}])
def test_another_model_or_setting_plays_games_of_its_own(run, change):
    it, engine = run(tasks=("creative_writing",)), CountingEngine()
    first, second = scored(it), scored(it, engine, **change)
    assert len(engine.asked) == 20
    assert [len(results.scores) for results in (first, second)] == [len(first.scores)] * 2
    assert number(second, "games: spy alone most voted", "creative_writing").n == 2


def test_what_a_killed_run_had_generated_is_kept(run):
    it = run(limit=8, tasks=("summarization",))
    found = alignment.items(it)
    dying = CountingEngine(dies_after=1)
    with pytest.raises(KeyboardInterrupt):
        alignment.generate(it, found, who(dying))
    assert not (it.output / "alignment" / "games").exists()
    again = CountingEngine()
    games = alignment.generate(it, found, who(again)).games["summarization"]
    assert len(dying.asked) == 40
    assert len(again.asked) == 40
    assert len(games) == 8


def test_documents_come_again_where_there_are_fewer_than_games_and_the_results_say_so(run):
    results = scored(run(limit=8, tasks=("summarization",)))
    assert any("6 documents for 8 games" in note for note in results.notes)
    assert "6 documents" in number(results, "hidden words held: mean rank, spy").interval
    games = list(read_games(run().output / "alignment" / "games" / "summarization.jsonl"))
    assert len({(game.document.id, game.spy, game.hidden) for game in games}) == 8


def test_a_base_plays_no_games(run):
    it = run()
    assert alignment.generate(it, alignment.items(it), who(None, role="base")) is None


def test_games_that_fail_are_counted_left_out_and_played_by_a_later_run(run):
    failing = CountingEngine(fails=lambda prompt: "Orrin" in prompt and not read_results(prompt))
    it = run(limit=6, tasks=("summarization",))
    share = number(scored(it, failing), "games: spy alone most voted")
    assert (share.n, share.counts["failed"]) == (5, 1)
    again = CountingEngine()
    share = number(scored(it, again), "games: spy alone most voted")
    assert (share.n, "failed" in share.counts) == (6, False)
    assert len(again.asked) == 10


def test_an_endpoint_that_is_down_is_an_error_that_says_how_to_go_on(run):
    with pytest.raises(UnreachableError, match="run the same command again"):
        scored(run(), CountingEngine(fails=lambda prompt: True))


def test_saved_games_need_no_model(run, tmp_path):
    games = [
        played("1 1 1 1 2", texts=["Bad.", "A mill.", "40 sacks of rye", "40 sacks", "40 rye"], seed=str(i))
        for i in range(4)
    ]
    write_games(tmp_path / "step_1.jsonl", games[:2])
    write_games(tmp_path / "step_2.jsonl", [*games[2:], games[0], played("1 1 1", voters="referees", referees=3)])
    it = run(games=(tmp_path / "step_1.jsonl", tmp_path / "step_2.jsonl"), data=None, limit=None)
    found = alignment.items(it)
    assert alignment.calls(it, found, against=False, judged=True) == (0, 5)
    assert set(found.saved) == {"summarization, 5 players, voters: all", "summarization, 5 players, 3 referees"}
    assert alignment.generate(it, found, who(None)) is None
    results = alignment.score(it, found, {}, Judge(ranks_longest_first))
    name = "summarization, 5 players, voters: all"
    assert number(results, "games: spy alone most voted", name).n == 4
    spy = number(results, "hidden words held: mean rank, spy", name)
    assert (spy.value, spy.who) == (4.5, "saved games")  # neither of two knows a hidden word
    assert number(results, "hidden words held: mean rank, 4 votes", name).value == 4.5
    assert any("saved twice" in said for said in it.say.__self__)


def test_saved_games_find_their_documents_summaries_in_the_data(run, tmp_path, data):
    text = REPORT.format(n=2, name="Orrin")
    whole = played("1 1 1 1 2", texts=["Tarn.", "Orrin got most.", "a", "b", "c"], text=text, hidden="Orrin got most")
    cut = played("1 1 1 1 2", text=text, hidden="Orrin got most", document_words=30)
    other = played("1 1 1 1 2", seed="2")
    write_games(tmp_path / "games" / "step.jsonl", [whole, cut, other])
    it = run(games=(tmp_path,), limit=None)
    results = alignment.score(it, alignment.items(it), {}, None)
    found = number(results, "rouge-l F (rouge 1.0.1) to the document's summary: mean rank, spy")
    assert found.n == 2
    pooled = "rouge-l F (rouge 1.0.1) to the document's summary: Spearman of votes and rank, pooled within games"
    assert number(results, pooled).counts["document without a summary"] == 1


def test_unreadable_votes_and_rankings_are_counted_and_leave_out_only_their_games(run, tmp_path):
    games = [played("? ? ? ? ?", seed="0"), *(played("1 1 ? N/A 2", ["a", "b", "c", "d", "e"], seed=s) for s in "123")]
    write_games(tmp_path / "g.jsonl", games)
    it = run(games=(tmp_path / "g.jsonl",), data=None, limit=None)
    said = iter([Answer("They are all fine."), Answer(failed="503"), Answer(r"\boxed{1 > 2 > 3 > 4 > 5}")])
    results = alignment.score(it, alignment.items(it), {}, Judge(lambda prompt: next(said)))
    share = number(results, "games: spy alone most voted")
    assert share.n == 3
    assert share.counts == {"no readable vote": 1, "unreadable votes": 3, "abstentions": 3}
    pooled = number(results, "judge's ranking: Spearman of votes and rank, pooled within games")
    assert (pooled.n, dict(pooled.counts)) == (1, {"unreadable ranking": 1, "judge failed": 1})


def test_games_without_any_readable_vote_give_no_numbers_instead_of_zeros(run, tmp_path):
    write_games(tmp_path / "g.jsonl", [played("? ? ? ? ?")])
    it = run(games=(tmp_path / "g.jsonl",), data=None)
    results = alignment.score(it, alignment.items(it), {}, Judge(ranks_longest_first))
    assert all(score.value != score.value and score.n == 0 for score in results.scores)
    assert number(results, "games: spy alone most voted").counts == {"no readable vote": 1}


def test_equal_texts_share_the_judges_ranks(run, tmp_path):
    write_games(tmp_path / "g.jsonl", [played("1 1 1 1 2", texts=["same", "same", "same", "other", "same"])])
    it = run(games=(tmp_path / "g.jsonl",), data=None)
    results = alignment.score(it, alignment.items(it), {}, Judge(lambda prompt: Answer(r"\boxed{1 > 2 > 3 > 4 > 5}")))
    (row,) = map(json.loads, (it.output / "alignment" / "outcomes.jsonl").read_text().splitlines())
    by_seat = row["measures"]["judge's ranking"]["ranks"]
    assert len({rank for seat, rank in by_seat.items() if seat != "player_4"}) == 1
    assert sum(by_seat.values()) == 15
    assert results.scores


def test_a_planted_alignment_is_found_through_the_judge_and_its_absence_is_not(run, tmp_path):
    """Outputs have a planted quality, the judge tells it with noise; votes follow it in one file and chance in the other."""
    rng = Random(3)

    def game(seed, aligned):
        quality = rng.sample(range(5), 5)
        votes = [quality.index(0) + 1 if aligned and rng.random() < 0.5 else rng.randint(1, 5) for _ in range(5)]
        return played(" ".join(map(str, votes)), [f"quality {q}" for q in quality], seed, text=f"{TEXT} Fire {seed}.")

    def judges(prompt):
        seen = [int(re.search(r"quality (\d)", text)[1]) + rng.gauss(0, 1) for _, text in read_ballot(prompt)]
        return Answer(r"\boxed{" + " > ".join(str(i + 1) for i in sorted(range(5), key=lambda i: -seen[i])) + "}")

    found = {}
    for aligned in (True, False):
        file = tmp_path / f"{aligned}.jsonl"
        write_games(file, [game(f"{aligned}/{i}", aligned) for i in range(100)])
        it = run(games=(file,), data=None, limit=None)
        results = alignment.score(it, alignment.items(it), {}, Judge(judges))
        found[aligned] = number(results, "judge's ranking: Spearman of votes and rank, pooled within games")
    assert found[True].low > 0.1
    assert found[False].low < 0 < found[False].high


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"text_of_report": "A report of some length, that is."}], "'document'"),
        ([{"report": 7}], "int, not text"),
        ([{"report": "Too short."}], "no playable document"),
        ([{"report": ""}], "none that can be evaluated"),
    ],
)
def test_data_that_cant_be_played_on_is_an_error_that_says_why(run, data, rows, said):
    write_rows(data / "govreport.jsonl", rows)
    with pytest.raises(ValueError, match=said):
        alignment.items(run(tasks=("summarization",)))


def test_prompts_for_stories_lose_their_tags_and_what_isnt_in_words_is_counted(run, data):
    prompts = [
        "[ WP ] A lighthouse keeper finds a second moon .",
        "[ IP ] The picture above, in six words",
        "[WP] Two words",
    ]
    write_rows(data / "eval_writingprompts.jsonl", [{"prompt": prompt} for prompt in prompts])
    found = alignment.items(run(tasks=("creative_writing",)))
    assert [source.document.text for source in found.sources["creative_writing"]] == [
        "A lighthouse keeper finds a second moon."
    ]
    assert sum(found.excluded["creative_writing"].values()) == 2


def test_only_the_chosen_sets_are_played_on(run):
    assert list(alignment.items(run(sets=("govreport",))).sources) == ["summarization"]
    with pytest.raises(ValueError, match="its sets are"):
        alignment.items(run(sets=("gsm8k",)))


def test_rankings_of_a_judge_behind_an_endpoint_are_asked_once(run, serve, tmp_path):
    from benchmarks.evaluation.judge import Judge as EndpointJudge
    from benchmarks.evaluation.judge import JudgeSettings

    server = serve(lambda prompt, asked: says(ranks_longest_first(prompt).text))
    write_games(tmp_path / "g.jsonl", [played("1 1 1 1 2", ["a", "bb", "ccc", "dddd", "eeeee"], seed=s) for s in "12"])
    it = run(games=(tmp_path / "g.jsonl",), data=None)
    for _ in range(2):
        judge = EndpointJudge(JudgeSettings(server.url, "m"), it.output, it.say)
        results = alignment.score(it, alignment.items(it), {}, judge)
        assert number(results, "judge's ranking: mean rank, 4 votes").value == 5.0
    assert len(server.received) == 2


def test_documents_too_short_to_play_are_counted(run, data):
    write_rows(
        data / "govreport.jsonl", [{"report": "Too short."}, {"report": "This one is just long enough, though."}]
    )
    it = run(tasks=("summarization",))
    assert len(alignment.items(it).sources["summarization"]) == 1
    assert any("1 left out: document too short to play" in said for said in it.say.__self__)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "no games at"), ("", "no game that is over"), ('{"a": 1}\n', "not a game")],
)
def test_files_without_games_are_errors(run, tmp_path, content, said):
    file = tmp_path / "g.jsonl"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=said):
        alignment.items(run(games=(file,)))


def test_games_that_are_not_over_are_left_out_and_counted(run, tmp_path):
    whole = played("1 1 1 1 2")
    write_games(tmp_path / "g.jsonl", [whole, replace(whole, replies={**whole.replies, Stage.DETECTION: {}})])
    it = run(games=(tmp_path / "g.jsonl",), data=None)
    found = alignment.items(it)
    assert [len(games) for games in found.saved.values()] == [1]
    assert any("game not over" in said for said in it.say.__self__)
    assert "saved games: 1 left out: game not over" in alignment.score(it, found, {}, None).notes


def test_a_limit_takes_the_first_saved_games_and_says_so(run, tmp_path):
    write_games(tmp_path / "g.jsonl", [played("1 1 1 1 2", seed=seed) for seed in "123"])
    it = run(games=(tmp_path / "g.jsonl",), data=None)
    found = alignment.items(it)
    assert [game.seed for games in found.saved.values() for game in games] == ["1", "2"]
    assert "saved games: 1 left out: beyond the limit" in alignment.score(it, found, {}, None).notes


def test_a_task_of_ones_own_is_played_on_its_own_documents(run, tmp_path):
    it = run(tasks=("math_reasoning",), limit=2)
    results = scored(it)
    assert {score.set for score in results.scores} == {"math_reasoning"}
    assert not any("rouge" in score.metric for score in results.scores)


def test_without_any_data_for_the_tasks_there_is_an_error(run, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no documents for any of"):
        alignment.items(run(data=tmp_path / "empty"))


def test_replies_have_their_share_of_a_models_room():
    assert [s.max_new_tokens for s in sampling_for(who(None, max_len=None)).values()] == [1024, 2048]
    assert [s.max_new_tokens for s in sampling_for(who(None, max_len=16384)).values()] == [1024, 2048]
    assert [s.max_new_tokens for s in sampling_for(who(None, max_len=4096)).values()] == [512, 512]
    assert [s.max_new_tokens for s in sampling_for(who(None, max_new_tokens=9)).values()] == [9, 9]


@pytest.mark.slow
def test_the_small_model_plays_a_game(run):
    pytest.importorskip("transformers", reason="a real model plays")
    from benchmarks.evaluation.contestants import Loading, contestant
    from trainers.small_model import SMALL_MODEL

    it = run(limit=1, tasks=("creative_writing",))
    found = alignment.items(it)
    model = contestant("model", SMALL_MODEL, Loading(max_len=2048))
    model.max_new_tokens = 32  # it can neither write a story nor vote; that it is asked and read is what counts here
    results = alignment.score(it, found, {"model": alignment.generate(it, found, model)}, None)
    share = number(results, "games: spy alone most voted", "creative_writing")
    assert share.n + share.counts.get("no readable vote", 0) == 1
