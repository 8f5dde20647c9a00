"""Prompts that fit: a document is shortened until both stages have room, and no instruction ever is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from spy_env import Document, Rules, Stage, deal, observe
from spy_env.masking import count_units
from spy_env.observations import read_document, read_results
from spy_env.records import from_json, to_json
from tests.trainers.engines.counting_engine import CountingEngine, words
from trainers.engines import Sampling
from trainers.prompt_budget import deal_to_fit
from trainers.rollout import SeatPolicies, rollout

SAMPLING = {Stage.PERFORMING: Sampling(20), Stage.DETECTION: Sampling(10)}
SENTENCE = "A bridge over the river was closed in spring. "
CHINESE = "河上的桥在春天关闭了两个月。"


def words_and_stars(text: str) -> int:
    """Every hidden character is a token."""
    return words(text) + text.count("*")


def units_and_template(text: str) -> int:
    """A chat template stands around every prompt."""
    return 30 + count_units(text)


COUNTERS = {
    "words": (SENTENCE, words),
    "every hidden character": (SENTENCE, words_and_stars),
    "characters of Chinese, in a chat template": (CHINESE, units_and_template),
}


def fitted(text: str, tokens: Callable[[str], int], max_len: int):
    """A game dealt to fit, and what its players' replies of full length leave free in each stage."""
    reply = " ".join(["word"] * SAMPLING[Stage.PERFORMING].max_new_tokens)
    engine = CountingEngine(lambda prompt: reply, tokens)
    seating = SeatPolicies(engine, SAMPLING, max_len)
    game = deal_to_fit(Document("d", text), "summarization", Rules(players=4), "run/1/0", None, seating.budget)
    (played,) = rollout([game], seating)
    assert played.game.detection_words is None, "a ballot of full length was not allowed for"
    longest = [max(tokens(request.prompt) for request in batch) for batch in engine.batches]
    return game, [
        max_len - used - sampling.max_new_tokens for used, sampling in zip(longest, SAMPLING.values(), strict=True)
    ]


@pytest.mark.parametrize("counted", COUNTERS)
@pytest.mark.parametrize("max_len", [600, 1000, 2000])
def test_a_document_is_shortened_until_both_stages_fit_and_hardly_further(counted, max_len):
    text, tokens = COUNTERS[counted]
    game, free = fitted(text * 200, tokens, max_len)
    assert min(free) >= 0
    assert min(free) < 0.1 * max_len, "the document is cut more than it must be"
    assert text.startswith(game.document.text[: len(text)])
    assert count_units(game.document.text) == game.rules.document_words


def test_short_documents_are_dealt_only_where_a_full_ballot_fits_too():
    dealt = 0
    for max_len in range(300, 500, 5):
        with contextlib.suppress(ValueError):
            _, free = fitted(SENTENCE, units_and_template, max_len)
            dealt += 1
            assert min(free) >= 0
    assert 10 < dealt < 40


def test_a_document_that_fits_is_left_alone():
    game, _ = fitted(SENTENCE * 20, words, 4000)
    assert game == deal(Document("d", SENTENCE * 20), "summarization", Rules(players=4), "run/1/0")


def test_instructions_are_never_cut():
    def around_the_document(game):
        return {prompt.replace(read_document(prompt), "") for prompt in observe(game, Stage.PERFORMING).values()}

    cut, _ = fitted(SENTENCE * 200, words, 600)
    whole = deal(Document("d", SENTENCE * 200), "summarization", Rules(players=4), "run/1/0")
    assert around_the_document(cut) == around_the_document(whole)


def test_a_document_that_can_not_be_cut_far_enough_is_an_error_that_says_what_to_change():
    with pytest.raises(ValueError, match=r"only 5 words left; raise max_len \(now 200\)"):
        fitted(SENTENCE * 200, words, 200)


def test_with_a_real_tokenizer_all_prompts_and_replies_fit(tmp_path):
    pytest.importorskip("torch", reason="the tokenizer comes with a model")
    tiny_world = pytest.importorskip("tests.trainers.tiny_world", reason="needs transformers")
    from trainers.engines.local import load_engine

    engine = load_engine(str(tiny_world.model_folder(tmp_path, steps=0)))
    text = " ".join(tiny_world.WORDS * 20)
    rules = Rules(players=4, document_words=120, mask_fraction=0.2)
    sampling = {Stage.PERFORMING: Sampling(4), Stage.DETECTION: Sampling(3)}
    seating = SeatPolicies(engine, sampling, max_len=64)
    dealt = [
        deal_to_fit(Document("d", text), tiny_world.TASK, rules, f"run/1/{i}", None, seating.budget) for i in range(8)
    ]
    for one in rollout(dealt, seating):
        assert 20 < count_units(one.game.document.text) < 60
        for stage, replies in one.replies.items():
            assert all(len(reply.prompt_ids) + sampling[stage].max_new_tokens <= 64 for reply in replies.values())


def says_too_much(prompt: str) -> str:
    return r"\boxed{1}" if read_results(prompt) else "bridge " * 60  # three times what is allowed for


def test_where_the_ballot_is_longer_than_allowed_for_the_document_is_cut_in_the_vote_prompts_only():
    engine = CountingEngine(says_too_much)
    seating = SeatPolicies(engine, SAMPLING, max_len=900)
    dealt = [
        deal_to_fit(
            Document("d", SENTENCE * 200), "summarization", Rules(players=4), f"run/1/{i}", None, seating.budget
        )
        for i in range(3)
    ]
    played = rollout(dealt, seating)
    asked_to_vote = {request.seed: request.prompt for request in engine.batches[1]}
    for one, before in zip(played, dealt, strict=True):
        game = from_json(to_json(one.game))
        assert game.detection_words < before.rules.document_words
        assert observe(game, Stage.PERFORMING) == observe(before, Stage.PERFORMING)
        votes = observe(game, Stage.DETECTION)
        assert {seat: asked_to_vote[f"{game.seed}/detection/{seat}"] for seat in votes} == votes
        assert 890 < max(map(words, votes.values())) + SAMPLING[Stage.DETECTION].max_new_tokens <= 900


def test_where_the_ballot_alone_is_too_long_performances_are_cut_on_it_and_nothing_raises():
    texts = ["bridge " * 1000, "b" * 4000, "a bridge", "bridge\n" * 1000]
    says = iter(texts)
    engine = CountingEngine(
        lambda prompt: r"\boxed{2}" if read_results(prompt) else next(says), tokens=lambda text: len(text) // 4
    )
    seating = SeatPolicies(engine, SAMPLING, max_len=900)
    game = deal(Document("d", SENTENCE), "summarization", Rules(players=4), "run/1/0")
    (played,) = rollout([game], seating)
    game = from_json(to_json(played.game))
    assert [game.performances()[seat].text for seat in game.players] == [text.strip() for text in texts]
    votes = observe(game, Stage.DETECTION)
    for request in engine.batches[1]:
        assert len(request.prompt) // 4 + SAMPLING[Stage.DETECTION].max_new_tokens <= 900
        assert request.prompt == votes[request.seed.rpartition("/")[2]]
        results = dict(read_results(request.prompt))
        assert results[3] == "a bridge"
        assert all(len(text) <= 4 * SAMPLING[Stage.PERFORMING].max_new_tokens for text in results.values())
        assert all(len(results[number]) > 20 for number in (1, 2, 4))
        assert len(read_document(request.prompt)) == len(game.document.text)
    assert set(game.shown_characters) == {"player_1", "player_2", "player_4"}


def test_a_room_too_small_for_any_ballot_is_an_error_that_names_the_game():
    seating = SeatPolicies(CountingEngine(lambda prompt: "bridge " * 1000), SAMPLING, max_len=100)
    with pytest.raises(ValueError, match=r"game run/1/0: prompts to vote leave no room for a ballot; raise max_len"):
        rollout([deal(Document("d", SENTENCE), "summarization", Rules(players=4), "run/1/0")], seating)


def test_without_a_limit_nothing_is_cut():
    game = deal_to_fit(
        Document("d", SENTENCE * 200),
        "summarization",
        Rules(),
        "run/1/0",
        None,
        SeatPolicies(CountingEngine(), SAMPLING).budget,
    )
    (played,) = rollout([game], SeatPolicies(CountingEngine(says_too_much), SAMPLING))
    assert count_units(played.game.document.text) == 200 * count_units(SENTENCE)
    assert played.game.detection_words is None


def two_a_word(text: str) -> int:
    return 2 * words(text)


def half_a_word(text: str) -> int:
    return (words(text) + 1) // 2


@pytest.mark.parametrize("spies_count", [two_a_word, half_a_word, lambda text: 0])
def test_prompts_fit_every_engine_at_the_table_with_a_ballot_of_what_the_tersest_tokenizer_allows(spies_count):
    sampling = {Stage.PERFORMING: Sampling(20), Stage.DETECTION: Sampling(10)}
    allowed = " ".join(["word"] * (40 if spies_count is half_a_word else 20))
    learner = CountingEngine(lambda prompt: allowed, words)
    spy = CountingEngine(lambda prompt: allowed, spies_count)
    seating = SeatPolicies(learner, sampling, 1200, {"spy": spy})
    game = deal_to_fit(
        Document("d", SENTENCE * 200), "summarization", Rules(players=4), "run/1/0", None, seating.budget
    )
    (played,) = rollout([game], seating)
    assert played.game.detection_words is None, "a ballot of full length was not allowed for"
    free = [
        1200 - count(prompt) - sampling[stage].max_new_tokens
        for stage in sampling
        for prompt in observe(played.game, stage).values()
        for count in (words, spies_count)
    ]
    assert 0 <= min(free) < 120
