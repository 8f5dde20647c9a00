"""Many games at once: one batch a stage and engine, games played again after trouble, prompts that fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from spy_env import Document, Rules, Stage, deal, observe
from spy_env.masking import count_units
from spy_env.observations import read_document, read_results
from spy_env.records import from_json, to_json
from trainers.engines import Failed, Reply, Request, Sampling
from trainers.rollout import RETRIES, GamesFailedError, Table, deal_to_fit, play_games

SAMPLING = {Stage.PERFORMING: Sampling(20), Stage.DETECTION: Sampling(10)}
SENTENCE = "A bridge over the river was closed in spring. "
CHINESE = "河上的桥在春天关闭了两个月。"


def says_little(prompt: str) -> str:
    return r"\boxed{2}" if read_results(prompt) else "Summary: a bridge"


def words(text: str) -> int:
    return len(text.split())


def words_and_stars(text: str) -> int:
    """Every hidden character is a token."""
    return words(text) + text.count("*")


def units_and_template(text: str) -> int:
    """A chat template stands around every prompt."""
    return 30 + count_units(text)


class CountingEngine:
    """Replies by a function of the prompt, counts tokens by another, keeps its batches, fails when it is told to."""

    def __init__(
        self,
        player: Callable[[str], str] = says_little,
        tokens: Callable[[str], int] = words,
        fails: Callable[[Request, int], bool] = lambda request, times: False,
    ) -> None:
        self.player, self.tokens, self.fails = player, tokens, fails
        self.batches: list[list[Request]] = []
        self.asked: Counter[str] = Counter()

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        self.batches.append(list(requests))
        return [self.one(request) for request in requests]

    def one(self, request: Request) -> Reply | Failed:
        self.asked[request.seed] += 1
        if self.fails(request, self.asked[request.seed] - 1):
            return Failed("the cable was cut")
        return Reply(self.player(request.prompt))

    def count_tokens(self, prompt: str, prefill: str) -> int:
        return self.tokens(prompt + prefill)


def games(count: int, rules: Rules | None = None):
    rules = rules or Rules(players=4)
    return [
        deal(Document(f"d{i}", f"{SENTENCE}{i}"), "summarization", rules, f"run/1/{i}", Stage.DETECTION)
        for i in range(count)
    ]


def sitting(requests: Sequence[Request]) -> set[str]:
    return {request.seed.rpartition("/")[2] for request in requests}


def test_all_games_advance_together_in_one_batch_a_stage():
    engine = CountingEngine()
    played = play_games(games(6), Table(engine, SAMPLING))
    assert [one.game.seed for one in played] == [f"run/1/{i}" for i in range(6)]
    assert [len(batch) for batch in engine.batches] == [6 * 4, 6 * 4]
    assert [{request.sampling for request in batch} for batch in engine.batches] == [{s} for s in SAMPLING.values()]
    assert all(one.game.stage is Stage.OVER for one in played)


def test_every_request_has_chance_of_its_own():
    engine = CountingEngine()
    play_games(games(6), Table(engine, SAMPLING))
    assert set(engine.asked.values()) == {1}
    assert len(engine.asked) == 2 * 6 * 4


def test_a_reply_stands_in_the_record_as_the_engine_gave_it():
    class Prefilling(CountingEngine):
        def one(self, request):
            return Reply("2}", r"\boxed{", True, (1, 2), (3,), (-0.5,))

    (played,) = play_games(games(1), Table(Prefilling(), SAMPLING))
    assert set(played.game.replies[Stage.DETECTION].values()) == {("2}", r"\boxed{", True)}
    assert set(played.game.votes().values()) == {"player_2"}
    assert played.replies[Stage.DETECTION]["player_1"] == Reply("2}", r"\boxed{", True, (1, 2), (3,), (-0.5,))


def test_each_seat_is_played_by_its_own_engine_in_one_batch_a_stage():
    learner, opponent, jury = CountingEngine(), CountingEngine(), CountingEngine()
    others = {"player_2": opponent, "player_3": opponent, "referee_1": jury}
    rules = Rules(players=4, voters="referees", referees=2)
    play_games(games(5, rules), Table(learner, SAMPLING, others=others))
    assert [(len(batch), sitting(batch)) for batch in learner.batches] == [
        (10, {"player_1", "player_4"}),
        (5, {"referee_2"}),
    ]
    assert [(len(batch), sitting(batch)) for batch in opponent.batches] == [(10, {"player_2", "player_3"})]
    assert [(len(batch), sitting(batch)) for batch in jury.batches] == [(5, {"referee_1"})]


@pytest.mark.parametrize("stage", [Stage.PERFORMING, Stage.DETECTION])
@pytest.mark.parametrize("times_failed", [1, RETRIES])
def test_a_game_that_failed_is_played_again_from_the_same_deal(stage, times_failed):
    def fails(request: Request, times: int) -> bool:
        return request.seed == f"run/1/2/{stage}/player_3" and times < times_failed

    stumbling, steady = CountingEngine(fails=fails), CountingEngine()
    after_trouble, undisturbed = (
        [to_json(one.game) for one in play_games(games(4), Table(engine, SAMPLING))] for engine in (stumbling, steady)
    )
    assert after_trouble == undisturbed
    again = Counter(seed.split("/")[2] for seed, times in stumbling.asked.items() if times > 1)
    assert set(again) == {"2"}, "only the failed game is played again"
    assert stumbling.asked["run/1/2/performing/player_1"] == 1 + times_failed


def test_a_game_is_given_up_after_two_more_tries_and_named():
    engine = CountingEngine(fails=lambda request, _: "run/1/1/detection" in request.seed)
    with pytest.raises(
        GamesFailedError, match=r"1 game.* in 3 tries: game run/1/1: player_1 in stage detection: the cable"
    ):
        play_games(games(3), Table(engine, SAMPLING))
    assert max(engine.asked.values()) == 1 + RETRIES


def test_games_fail_one_by_one_where_somebody_is_told():
    engine = CountingEngine(fails=lambda request, _: request.seed.split("/")[2] in "13")
    told = []
    played = play_games(games(5), Table(engine, SAMPLING), on_failure=lambda game, reason: told.append(game.seed))
    assert [one.game.seed for one in played] == ["run/1/0", "run/1/2", "run/1/4"]
    assert told == ["run/1/1", "run/1/3"]


COUNTERS = {
    "words": (SENTENCE, words),
    "every hidden character": (SENTENCE, words_and_stars),
    "characters of Chinese, in a chat template": (CHINESE, units_and_template),
}


def fitted(text: str, tokens: Callable[[str], int], max_len: int):
    """A game dealt to fit, and what its players' replies of full length leave free in each stage."""
    reply = " ".join(["word"] * SAMPLING[Stage.PERFORMING].max_new_tokens)
    engine = CountingEngine(lambda prompt: reply, tokens)
    table = Table(engine, SAMPLING, max_len)
    game = deal_to_fit(Document("d", text), "summarization", Rules(players=4), "run/1/0", None, table)
    play_games([game], table)
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
    with pytest.raises(ValueError, match=r"only 5 words left; raise --data.max_len \(now 200\)"):
        fitted(SENTENCE * 200, words, 200)


def test_with_a_real_tokenizer_all_prompts_and_replies_fit(tmp_path):
    pytest.importorskip("torch", reason="the tokenizer comes with a model")
    tiny_world = pytest.importorskip("tiny_world", reason="needs transformers")
    from trainers.local_engine import load_engine

    engine = load_engine(str(tiny_world.model_folder(tmp_path, steps=0)))
    text = " ".join(tiny_world.WORDS * 20)
    rules = Rules(players=4, document_words=120, mask_fraction=0.2)
    sampling = {Stage.PERFORMING: Sampling(4), Stage.DETECTION: Sampling(3)}
    table = Table(engine, sampling, max_len=64)
    dealt = [deal_to_fit(Document("d", text), tiny_world.TASK, rules, f"run/1/{i}", None, table) for i in range(8)]
    for one in play_games(dealt, table):
        assert 20 < count_units(one.game.document.text) < 60
        for stage, replies in one.replies.items():
            assert all(len(reply.prompt_ids) + sampling[stage].max_new_tokens <= 64 for reply in replies.values())


def says_too_much(prompt: str) -> str:
    return r"\boxed{1}" if read_results(prompt) else "bridge " * 60  # three times what is allowed for


def test_where_the_ballot_is_longer_than_allowed_for_the_document_is_cut_in_the_vote_prompts_only():
    engine = CountingEngine(says_too_much)
    table = Table(engine, SAMPLING, max_len=900)
    dealt = [
        deal_to_fit(Document("d", SENTENCE * 200), "summarization", Rules(players=4), f"run/1/{i}", None, table)
        for i in range(3)
    ]
    played = play_games(dealt, table)
    asked_to_vote = {request.seed: request.prompt for request in engine.batches[1]}
    for one, before in zip(played, dealt, strict=True):
        game = from_json(to_json(one.game))
        assert game.detection_words < before.rules.document_words
        assert observe(game, Stage.PERFORMING) == observe(before, Stage.PERFORMING)
        votes = observe(game, Stage.DETECTION)
        assert {seat: asked_to_vote[f"{game.seed}/detection/{seat}"] for seat in votes} == votes
        assert 890 < max(map(words, votes.values())) + SAMPLING[Stage.DETECTION].max_new_tokens <= 900


def test_a_ballot_that_alone_is_too_long_is_an_error_that_names_the_game():
    table = Table(CountingEngine(lambda prompt: "bridge " * 1000), SAMPLING, max_len=900)
    with pytest.raises(
        ValueError, match=r"game run/1/0: the ballot alone is \d+ tokens too long; raise --data.max_len"
    ):
        play_games(games(1), table)


def test_without_a_limit_nothing_is_cut():
    game = deal_to_fit(
        Document("d", SENTENCE * 200), "summarization", Rules(), "run/1/0", None, Table(CountingEngine(), SAMPLING)
    )
    (played,) = play_games([game], Table(CountingEngine(says_too_much), SAMPLING))
    assert count_units(played.game.document.text) == 200 * count_units(SENTENCE)
    assert played.game.detection_words is None
