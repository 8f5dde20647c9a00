"""How texts are compared, how spies differ from civilians, and whether votes go with quality: hand-worked and simulated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spy_env import Document, RawReply, Rules, Span, deal
from spy_env.diagnostics import diversity, gaps, lead, near_duplicates, votes_and_proxies
from spy_env.diagnostics.estimates import average, share
from spy_env.diagnostics.proxies import COPIED, COVERAGE, FEWEST, LENGTH, hidden_words, proxies
from spy_env.wording import content_words, copied_share, distinct_2, likeness, shingles, words
from tests.simulated_games import english, games

TEXT = "The mill at Orrin burned on 3 May. The mill lost nobody, and 40 sacks of rye were lost."


def played(texts, votes, spy="player_1", hidden=(), seed="1"):
    """A game whose performances and votes are given."""
    game = deal(Document("d", TEXT), "summarization", Rules(players=len(texts)), seed)
    game = replace(game, spy=spy, hidden=tuple(hidden))
    game = game.with_replies(
        {seat: RawReply(f"Summary: {text}") for seat, text in zip(game.players, texts, strict=True)}
    )
    return game.with_replies(
        {seat: RawReply(rf"\boxed{{{vote}}}") for seat, vote in zip(game.voters, votes, strict=True)}
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Don't STOP, 3.5!", ("don't", "stop", "3", "5")), ("研究AI了", ("研", "究", "ai", "了")), ("", ()), ("**", ())],
)
def test_words_are_words_numbers_and_chinese_characters(text, expected):
    assert words(text) == expected


def test_copying_counts_runs_of_four_words_and_takes_a_shorter_text_whole():
    source = shingles("a b c d e f")
    assert copied_share("a b c d x", source) == 1 / 2
    assert copied_share("a b c d", source) == 1
    assert copied_share("a b", source) == 0  # a run of its own, which the source's are not
    assert copied_share("a b", shingles("a b")) == 1
    assert copied_share("", source) == 0


def test_diversity_and_likeness_by_hand():
    assert distinct_2(["a b a b"]) == 2 / 3
    assert distinct_2(["a b", "a b"]) == 1 / 2
    assert distinct_2(["a"]) == 1
    assert likeness(shingles("a b c d e"), shingles("b c d e f")) == 1 / 3
    assert likeness(shingles(""), shingles("")) == 1


def test_content_words_are_numbers_longer_words_and_pairs_of_characters():
    assert content_words("It was the 3rd mill, with rye") == {"3rd", "mill"}
    assert content_words("大河 ok") == {"大河"}


def test_gaps_are_the_spys_value_minus_the_civilians_mean_by_game():
    one = played(["a b", "a b c", "a b c d e"], "111", seed="1")
    two = played(["a b c d e", "a b", "a b"], "111", seed="2")
    gap = gaps([one, two])["length"]
    assert gap.spy == average([2, 5])
    assert gap.civilians == average([4, 2])
    assert gap.difference == average([-2, 3])
    assert not gap.clear


def test_what_the_spy_copied_is_looked_for_in_its_own_copy():
    hidden = Span(TEXT.index("at Orrin"), TEXT.index(" burned"))
    found = gaps([played(["the mill at Orrin burned"] * 3, "111", hidden=[hidden])])
    own, whole = (found[f"copied share of the {what}"] for what in ("own copy", "document"))
    assert (own.spy.value, own.civilians.value) == (0, 1)
    assert whole.spy.value == 1


def test_near_duplicates_are_pairs_of_civilians():
    texts = ["one thing altogether elsewhere", "the mill at Orrin burned down", "The mill at Orrin burned!", "a b c d"]
    found = near_duplicates([played(texts, "1111")])
    assert found[0] == pytest.approx(1 / 3)
    assert found.n == 3
    assert diversity([played(["a b"] * 4, "1111")]).value == 1 / 4


def test_hidden_words_are_those_that_stand_nowhere_else():
    hidden = Span(TEXT.index("burned"), TEXT.index(" and 40"))
    game = played(["burned May", "nobody", ""], "111", hidden=[hidden])
    assert hidden_words(game) == {"burned", "nobody", "3"}
    assert proxies(game)[COVERAGE] == {"player_1": 1 / 3, "player_2": 1 / 3, "player_3": 0}


def test_a_game_that_hides_nothing_of_its_own_has_no_coverage():
    assert set(proxies(played(["a", "b", "c"], "111"))) == {COPIED, LENGTH}


def test_votes_go_with_a_proxy_by_ranks_within_each_game():
    # votes 2, 1, 0; lengths 3, 2, 1: the same order in all games, whatever the levels
    same = [
        played([" ".join("abcdefghijklm"[: low + more]) for more in (3, 2, 1)], "112", seed=f"{low}")
        for low in range(FEWEST)
    ]
    assert votes_and_proxies(same)[LENGTH][:3] == (1, 1, 1)
    turned = votes_and_proxies([played(["a", "a b", "a b c"], "112")])[LENGTH]
    assert turned[:3] == (-1, -1, 1)  # one game says it, and can't say how surely
    # a tie: votes 3, 0, 0 give ranks 1, -1/2, -1/2 and lengths 2, 2, 1 give 1/2, 1/2, -1: products 3/4 over 3/2
    assert votes_and_proxies([played(["a b", "a c", "a"], "111")])[LENGTH].value == pytest.approx(0.5)


def test_a_few_games_that_agree_do_not_pass_for_certain():
    few = [played(["a b c", "a b", "a"], "112", seed=f"{i}") for i in range(FEWEST - 1)]
    assert votes_and_proxies(few)[LENGTH] == (1, -1, 1, FEWEST - 1)


def test_games_without_a_vote_or_with_equal_texts_say_nothing_of_a_proxy():
    silent = played(["a", "a b", "a b c"], ["N/A"] * 3)
    equal = played(["a b"] * 3, "112")
    assert votes_and_proxies([silent, equal]) == {}


def test_votes_by_chance_go_with_nothing_and_the_interval_says_so():
    covered = [votes_and_proxies(games(40, f"chance {i}", right=0.0))[LENGTH] for i in range(20)]
    assert sum(one.low <= 0 <= one.high for one in covered) >= 17


def test_the_same_games_give_the_same_interval():
    assert votes_and_proxies(games(10, 1)) == votes_and_proxies(games(10, 1))


def test_without_resamples_there_are_the_values_alone():
    quick, whole = votes_and_proxies(games(10, 1), resamples=0), votes_and_proxies(games(10, 1))
    assert {name: one.value for name, one in quick.items()} == {name: one.value for name, one in whole.items()}
    assert {one[1:3] for one in quick.values()} == {(-1, 1)}


def test_no_games_measure_nothing():
    assert gaps([]) == votes_and_proxies([]) == {}
    assert gaps([deal(english(1), "summarization", Rules(), "1")]) == {}
    assert near_duplicates([]).n == diversity([]).n == 0


def test_collusion_is_a_lead_that_was_not_there_at_the_start():
    early, late = [0.25, 0.5, 0.25, 0.0] * 3, [1.0, 0.75, 1.0, 1.0] * 3
    frozen = [0.5, 0.25, 0.0, 0.25] * 6
    assert lead([*early, *late], frozen).alarm
    assert lead([*early, *late], frozen).late == average([a - b for a, b in zip(late, frozen[12:], strict=True)])
    assert not lead([*late, *late], frozen).alarm  # ahead from the start: a better detector, and no news
    assert not lead([*early, *early], frozen).alarm
    assert not lead([0.0] * 7 + [1.0] * 7, [0.0] * 14).alarm  # seven late games that agree are no certainty
    assert lead([0.0] * 8 + [1.0] * 8, [0.0] * 16).alarm
    assert lead([*early, *late], frozen).frozen_late == share(frozen[12:], [1] * 12)


@pytest.mark.parametrize(("own", "frozen"), [([0.5], [0.5]), ([0.5, 0.5], [0.5])])
def test_a_lead_needs_the_same_games_and_two_of_them(own, frozen):
    with pytest.raises(ValueError, match="give the same two or more"):
        lead(own, frozen)


def test_early_games_may_be_fewer_than_late_ones_but_not_none():
    assert lead([1.0, 0.0, 0.0], [0.0] * 3, early=1).early.n == 1
    with pytest.raises(ValueError, match="early is 0 of 3 games"):
        lead([1.0, 0.0, 0.0], [0.0] * 3, early=0)
