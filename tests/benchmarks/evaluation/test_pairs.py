"""A/B pairs: outcomes by hand, and judges with known faults and a known truth, that the numbers must show."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest

from benchmarks.evaluation.intervals import mean
from benchmarks.evaluation.pairs import BASE, MODEL, SHARE, Pair, at_equal_length, compare, judged, scores, unasked
from benchmarks.evaluation.questions import TIE, comparison, read_comparison
from tests.benchmarks.evaluation.scripted_judges import JudgeByRule, judge_at, noisy, texts_of
from tests.chat_server import Answer, says


@pytest.fixture
def quick(monkeypatch):
    """Intervals of few resamples, where none is read."""
    monkeypatch.setattr("benchmarks.evaluation.intervals.RESAMPLES", 50)


ONE = {"overall": "the better text"}
PAIR = Pair("stories", "1", "Write.", "the model's", "the base's")
# Both verdicts by place, with the model's text first and second: the outcome, worked by hand.
OUTCOMES = {
    ("A", "B"): MODEL,
    ("B", "A"): BASE,
    ("A", "A"): TIE,
    ("B", "B"): TIE,
    ("A", TIE): TIE,
    ("B", TIE): TIE,
    (TIE, "A"): TIE,
    (TIE, "B"): TIE,
    (TIE, TIE): TIE,
}


def by_metric(found):
    return {score.metric.removesuffix(", overall"): score for score in found}


@pytest.mark.parametrize("verdicts", OUTCOMES)
def test_a_pair_is_won_or_lost_where_both_orders_agree_and_a_tie_elsewhere(verdicts):
    first, second = ({"overall": verdict} for verdict in verdicts)
    outcome = judged(PAIR, "overall", first, second)
    assert outcome.winner == OUTCOMES[verdicts]
    assert outcome.flipped == (verdicts in (("A", "A"), ("B", "B")))


def written(folder):
    return [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]


def test_what_was_won_tied_lost_and_left_out_adds_up(quick, tmp_path):
    rules = {
        "better": lambda a, _: r"\boxed{A}" if a == "better" else r"\boxed{B}",
        "worse": lambda a, _: r"\boxed{B}" if a == "worse" else r"\boxed{A}",
        "first": lambda *_: r"\boxed{A}",
        "equal": lambda *_: r"\boxed{tie}",
        "prose": lambda *_: "They are both lovely, and I can't say which is better.",
        "prose once": lambda a, _: r"\boxed{A}" if a == "prose once" else "Hm.",
        "silence": lambda *_: None,
        "cut": lambda a, _: "For one thing<cut>" if a == "cut" else "Hm.",
        "cut late": lambda *_: r"\boxed{A} And<cut>",
    }
    texts = {**dict.fromkeys(rules, ("a base", "asked")), "": ("a base", ""), "same": ("same", ""), "x": ("", "")}
    pairs = [Pair("stories", f"i{i}", "Write.", model, base) for i, (model, (base, _)) in enumerate(texts.items())]

    def rule(prompt):
        a, b = texts_of(prompt)
        return rules[a if a in rules else b](a, b)

    judge = JudgeByRule(rule)
    found = by_metric(compare(judge, pairs, ONE, 0, tmp_path))
    assert len(judge.asked) == 2 * len(rules)  # neither the empty nor the same texts
    # wins: better, x against nothing; losses: worse, nothing against a base; ties: first, equal, cut late, same
    assert (found["win rate"].value, found["win rate"].n) == (pytest.approx(4 / 8), 8)
    assert [found[name].value for name in ("wins", "ties", "losses")] == pytest.approx([2 / 8, 4 / 8, 2 / 8])
    assert (found["flips"].value, found["flips"].n) == (pytest.approx(2 / 5), 5)
    assert found["win rate"].counts == {
        "pairs": 12,
        "judged": 5,
        "unreadable verdict": 2,
        "verdict out of tokens": 1,
        "failed": 1,
        "empty (model)": 1,
        "empty (base)": 1,
        "the same text": 1,
    }
    assert found["win rate"].who == "model against base"
    rows = {row["item"]: row for row in written(tmp_path)}
    assert len(rows) == 12
    assert rows["i0"] == {
        "set": "stories",
        "item": "i0",
        "criterion": "overall",
        "winner": "model",
        "model_first": "model",
        "base_first": "model",
        "flipped": False,
        "why": "",
        "model_characters": 6,
        "base_characters": 6,
        "verdicts": [judge.key(prompt) for prompt in judge.asked[:2]],
    }
    assert rows["i4"]["why"] == "unreadable verdict"


def test_criteria_are_judged_in_one_question_and_told_apart(quick, tmp_path):
    criteria = {"novelty": "fresh", "overall": "better"}

    def rule(prompt):
        better = "A" if texts_of(prompt)[0] == "fresh" else "B"
        return rf"\boxed{{novelty={better}; overall=tie}}"

    judge = JudgeByRule(rule)
    pairs = [Pair(name, "1", "Write.", "fresh", "stale") for name in ("one", "two")]
    found = {(score.set, score.metric): score.value for score in compare(judge, pairs, criteria, 0, tmp_path)}
    assert len(set(judge.asked)) == 2  # the same pair in both sets
    assert [found[name, "win rate, novelty"] for name in ("one", "two")] == [1.0, 1.0]
    assert [found[name, "win rate, overall"] for name in ("one", "two")] == [0.5, 0.5]
    assert len(written(tmp_path)) == 4


def test_an_answered_pair_of_two_samples_of_one_item_stays_two_pairs(quick, tmp_path):
    judge = JudgeByRule(lambda prompt: r"\boxed{A}" if texts_of(prompt)[0].startswith("good") else r"\boxed{B}")
    pairs = [Pair("s", "1", "Write.", "good", "bad"), Pair("s", "1", "Write.", "bad", "good one")]
    assert by_metric(compare(judge, pairs, ONE, 0, tmp_path))["win rate"].value == 0.5


def test_no_pairs_give_no_scores(tmp_path):
    assert compare(JudgeByRule(lambda _: None), [], ONE, 0, tmp_path) == []


def test_pairs_that_all_fail_are_no_number_and_counted(tmp_path):
    found = by_metric(compare(JudgeByRule(lambda _: None), [PAIR], ONE, 0, tmp_path))
    assert found["win rate"].n == 0
    assert found["win rate"].value != found["win rate"].value
    assert found["win rate"].counts == {"pairs": 1, "failed": 1}


def samples(seed: int, n: int, better: float = 0.0, longer: float = 0.0) -> list[Pair]:
    """Texts that hold their own quality, drawn from one distribution, but for what is planted."""
    rng = Random(seed)

    def text(shift: float, more: float) -> str:
        return f"quality {rng.gauss(shift, 1):.6f} " + "x" * max(1, round(rng.gauss(60 + more, 20)))

    return [Pair("s", str(i), f"Write {i}.", text(better, longer), text(0, 0)) for i in range(n)]


def quality(text: str) -> float:
    return float(text.split()[1])


def outcomes(pairs, judge):
    """What ``compare`` makes of them, without its intervals."""
    return [
        judged(
            pair,
            "overall",
            read_comparison(judge(comparison("Write.", pair.model, pair.base, ONE)), ONE),
            read_comparison(judge(comparison("Write.", pair.base, pair.model, ONE)), ONE),
        )
        for pair in pairs
    ]


def self_play(seeds: int) -> tuple[int, list[float]]:
    """How often the interval of a model against itself held one half, and the win rates."""
    held, rates = 0, []
    for seed in range(seeds):
        found = outcomes(samples(seed, 60), noisy(seed, bias=1.5, quality=quality))
        interval = mean([SHARE[outcome.winner] for outcome in found], seed)
        held += interval.low <= 0.5 <= interval.high
        rates.append(interval.value)
    return held, rates


def test_a_model_against_itself_comes_out_at_half_within_its_interval():
    held, rates = self_play(20)
    assert held >= 16  # of 20 at 95 %: chance alone falls below it once in 300 times
    assert abs(np.mean(rates) - 0.5) < 3 * np.std(rates) / 20**0.5


@pytest.mark.slow
def test_a_model_against_itself_comes_out_at_half_at_the_nominal_rate():
    held, rates = self_play(400)
    assert (
        0.95 - 3 * (0.95 * 0.05 / 400) ** 0.5 - 0.01 < held / 400 < 0.99
    )  # the bootstrap of 60 pairs is a little short
    assert abs(np.mean(rates) - 0.5) < 3 * np.std(rates) / 400**0.5


def test_a_planted_difference_is_found_through_noise_and_bias_and_the_bias_is_seen(tmp_path):
    judge = JudgeByRule(noisy(0, bias=1.5, quality=quality))
    found = by_metric(compare(judge, samples(0, 120, better=1.0), ONE, 0, tmp_path))
    assert found["win rate"].low > 0.5
    assert found["length-controlled win rate"].low > 0.5
    assert found["flips"].value > 0.3


def test_a_judge_that_sees_only_the_place_finds_nothing_and_flips_always(quick, tmp_path):
    found = by_metric(compare(JudgeByRule(lambda _: r"\boxed{A}"), samples(0, 50, better=5.0), ONE, 0, tmp_path))
    assert (found["win rate"].value, found["flips"].value) == (0.5, 1.0)


def test_a_judge_that_likes_length_wins_nothing_once_length_is_controlled(tmp_path):
    judge = JudgeByRule(noisy(0, bias=0.5, quality=lambda text: len(text) / 15))
    found = by_metric(compare(judge, samples(1, 200, longer=20.0), ONE, 0, tmp_path))
    raw, controlled = found["win rate"], found["length-controlled win rate"]
    assert raw.low > 0.6
    assert controlled.low < 0.5 < controlled.high
    assert abs(controlled.value - 0.5) < 0.1
    assert controlled.counts["model longer"] > controlled.counts["base longer"] > 0


def test_quality_is_still_seen_where_length_is_controlled(tmp_path):
    judge = JudgeByRule(noisy(0, bias=0.0, quality=lambda text: 2 * quality(text) + len(text) / 40))
    found = by_metric(compare(judge, samples(2, 200, better=1.0, longer=20.0), ONE, 0, tmp_path))
    assert 0.55 < found["length-controlled win rate"].value < found["win rate"].value
    assert found["length-controlled win rate"].low > 0.5


def test_empty_texts_alone_are_no_win_rate_where_no_verdict_could_be_read():
    unread = [judged(PAIR, "overall", "unreadable verdict", {"overall": "B"})] * 20
    empty = [unasked(PAIR._replace(base=""), "overall")] * 10
    found = by_metric(scores("s", "overall", [*unread, *empty], 0))
    for metric in ("win rate", "length-controlled win rate", "wins"):
        assert (found[metric].value != found[metric].value, found[metric].n) == (True, 0)
    assert found["win rate"].counts == {"pairs": 30, "unreadable verdict": 20, "empty (base)": 10}
    assert by_metric(scores("s", "overall", empty, 0))["win rate"].value == 1


def test_a_text_that_is_missing_is_no_short_text_and_length_excuses_no_loss():
    even = [judged(PAIR, "overall", {"overall": a}, {"overall": b}) for a, b in (("A", "B"), ("B", "A"))] * 10
    nothing = [unasked(PAIR._replace(model=""), "overall")] * 20
    found = by_metric(scores("s", "overall", even + nothing, 0))
    assert found["win rate"].value == 0.25
    assert found["length-controlled win rate"].value == pytest.approx(0.25)
    assert found["length-controlled win rate"].high < 0.5
    assert by_metric(scores("s", "overall", nothing, 0))["length-controlled win rate"].value == 0
    unlike = [*nothing, unasked(PAIR._replace(base=""), "overall")]  # none to fit at all
    assert by_metric(scores("s", "overall", unlike, 0))["length-controlled win rate"].value == pytest.approx(1 / 21)


def test_the_fit_gives_back_the_odds_that_outcomes_were_drawn_from():
    rng = np.random.default_rng(0)
    longer = rng.normal(100, 300, 40_000)
    won = (rng.random(40_000) < 1 / (1 + np.exp(-0.7 - longer / 200))).astype(float)
    assert at_equal_length(won, longer) == pytest.approx(1 / (1 + np.exp(-0.7)), abs=0.02)


@pytest.mark.parametrize(
    ("won", "longer", "value"),
    [
        ([1, 1, 0], [0, 0, 0], 2 / 3),  # no differences: the win rate itself
        ([1, 0, 0.5, 0.5], [5, -5, 5, -5], 0.5),
        ([1, 0] * 20, [1, -1] * 20, 0.5),  # lengths tell everything: still finite
        ([1, 0] * 20, [1e9, -1e9] * 20, 0.5),
        ([1] * 50, list(range(50)), 1),
        ([0.5], [3], 0.5),
    ],
)
def test_fits_that_can_be_worked_by_hand(won, longer, value):
    assert at_equal_length(np.array(won, float), np.array(longer, float)) == pytest.approx(value, abs=0.01)


def test_outcomes_that_all_agree_claim_no_certainty():
    won = [judged(PAIR, "overall", {"overall": "A"}, {"overall": "B"})] * 12
    found = by_metric(scores("s", "overall", won, 0))
    assert found["win rate"].low < 0.8
    assert found["length-controlled win rate"].low is None
    ties = by_metric(scores("s", "overall", [judged(PAIR, "overall", {"overall": "A"}, {"overall": "A"})] * 3, 0))
    assert (ties["win rate"].value, ties["win rate"].low) == (0.5, None)


def test_a_noisy_biased_judge_behind_an_endpoint_with_trouble_gives_the_same_numbers_twice(serve, quick, tmp_path):
    rule = noisy(3, bias=1.0, quality=quality)
    trouble = [Answer(b"{}", 429, {"retry-after-ms": "1"}), Answer(b"{}", 500, {"retry-after-ms": "1"})]
    server = serve(lambda prompt, times: trouble[len(prompt) % 2] if not times else says(rule(prompt)))
    pairs = samples(3, 8)
    found = [compare(judge_at(server, tmp_path), pairs, ONE, 0, tmp_path / "suite") for _ in range(2)]
    assert found[0] == found[1] == compare(JudgeByRule(rule), pairs, ONE, 0, tmp_path / "rule")
    assert set(server.prompts.values()) == {2}  # the trouble and the verdict; the second time nothing
    cached = {json.loads(line)["key"] for line in (tmp_path / "verdicts.jsonl").read_text().splitlines()}
    assert {key for row in written(tmp_path / "suite") for key in row["verdicts"]} == cached
