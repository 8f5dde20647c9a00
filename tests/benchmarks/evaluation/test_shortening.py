"""Documents lose their middle, and no more of it than must go; instructions lose nothing."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.evaluation.contestants import EstimatedReader
from benchmarks.evaluation.generations import CLOSE, MARK, fitted, without_middle
from spy_env.masking import count_units

BEFORE, AFTER = "Read this.", "Summarize what you have read."


def prompt_of(document: str) -> str:
    return f"{BEFORE}\n\n{document}\n\n{AFTER}"


def words(prompt: str) -> int:
    return count_units(prompt)


def estimated(prompt: str) -> int:
    return EstimatedReader().count_tokens(prompt, "")


WHOLE = " ".join(f"w{i}" for i in range(1000))


def test_what_fits_stays_as_it_is():
    assert fitted(WHOLE, prompt_of, words, 1007) == (prompt_of(WHOLE), False)
    assert fitted(WHOLE, prompt_of, words, None) == (prompt_of(WHOLE), False)


def test_what_does_not_fit_loses_its_middle_at_borders_of_words():
    prompt, shortened = fitted(WHOLE, prompt_of, words, 200)
    assert shortened
    head, tail = prompt.removeprefix(f"{BEFORE}\n\n").removesuffix(f"\n\n{AFTER}").split(MARK)
    assert WHOLE.startswith(head + " ")
    assert WHOLE.endswith(" " + tail)
    assert CLOSE * 200 <= words(prompt) <= 200
    assert abs(len(head) - len(tail)) < 12
    assert fitted(WHOLE, prompt_of, words, 200).prompt == prompt


def test_instructions_that_do_not_fit_by_themselves_are_refused_with_the_numbers():
    least = words(prompt_of(MARK))
    assert fitted(WHOLE, prompt_of, words, least).prompt == prompt_of(MARK)
    with pytest.raises(ValueError, match=rf"{least} tokens without its document, and {least - 1} are free.*--max_len"):
        fitted(WHOLE, prompt_of, words, least - 1)
    with pytest.raises(ValueError, match="-12 are free"):
        fitted(WHOLE, prompt_of, words, -12)


@given(st.text(st.sampled_from("ab .\n今天é👍🏽\u0301"), max_size=600), st.integers(30, 300))
@settings(max_examples=200, deadline=None)
def test_every_text_fits_and_both_its_ends_are_its_own(text, room):
    prompt, shortened = fitted(text, prompt_of, estimated, room)
    assert estimated(prompt) <= room
    assert shortened == (estimated(prompt_of(text)) > room)
    if shortened:
        head, _, tail = prompt.removeprefix(f"{BEFORE}\n\n").removesuffix(f"\n\n{AFTER}").partition(MARK)
        assert text.startswith(head)
        assert text.endswith(tail)


@given(st.text(st.sampled_from("ab 今天é👍🏽\u0301"), min_size=1, max_size=50), st.data())
@settings(max_examples=200, deadline=None)
def test_no_more_is_kept_than_asked_for(text, data):
    kept = data.draw(st.integers(0, len(text) - 1))
    assert len(without_middle(text, kept, "")) <= kept


def test_a_word_too_long_to_keep_is_cut_within():
    assert without_middle("x" * 1000, 600) == "x" * 300 + MARK + "x" * 300
    prompt, _ = fitted("x" * 100_000, prompt_of, estimated, 1000)
    assert CLOSE * 1000 <= estimated(prompt) <= 1000


UNEVEN = {
    "dense at its ends": ("漢" * 20_000, "ab " * 300_000, "漢" * 20_000),
    "dense in its middle": ("ab " * 20_000, "漢" * 300_000, "ab " * 20_000),
    "sparse at its ends": ("_" * 60_000, "漢" * 300_000, "_" * 60_000),
    "dense at its end": ("ab " * 20_000, "ab " * 300_000, "漢" * 20_000),
}


@pytest.mark.parametrize("where", UNEVEN)
@pytest.mark.parametrize("room", [1000, 2000, 16_000])
def test_few_countings_find_a_length_that_fits_however_uneven_the_document(where, room):
    counted = []

    def count(prompt: str) -> int:
        counted.append(len(prompt) + 2 * prompt.count("漢") - prompt.count("_") * 49 // 50)
        return counted[-1]

    prompt, _ = fitted("".join(UNEVEN[where]), prompt_of, count, room)
    assert 0.8 * room <= count(prompt) <= room
    assert len(counted) <= 19  # the test counts once more


@pytest.mark.slow
def test_100_000_tokens_take_a_real_tokenizer_a_few_seconds():
    from transformers import AutoTokenizer

    from trainers.engines.encoder import Encoder
    from trainers.first_run.downloads import small_model

    encoder = Encoder(AutoTokenizer.from_pretrained(small_model()))
    rng = random.Random(0)
    document = " ".join("".join(rng.choices("aeioutnsr", k=rng.randint(2, 9))) for _ in range(45_000))
    assert len(encoder.encode(document)) > 100_000
    started = time.monotonic()
    prompt, _ = fitted(document, prompt_of, lambda prompt: len(encoder.encode(prompt)), 1536)
    assert time.monotonic() - started < 10
    assert CLOSE * 1536 <= len(encoder.encode(prompt)) <= 1536
