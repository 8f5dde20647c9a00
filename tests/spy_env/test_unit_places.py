"""The quick ways to count and find units say what a walk over all units says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spy_env import shorten
from spy_env.masking import count_units, unit_start, units

SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000"
NOT_SPACES = "\u200b\u2060\ufeff\x00\x1b"  # invisible, but parts of words
WORDS_ONLY = st.text("aé\u0301*.👩\u200d" + SPACES.replace("\u3000", "") + NOT_SPACES, max_size=60)
WITH_CJK = st.text("aé\u0301谁。ー👩\u200d" + SPACES, max_size=60)
any_text = pytest.mark.parametrize("texts", [WORDS_ONLY, WITH_CJK], ids=["words", "CJK"])


@any_text
@given(data=st.data())
def test_units_are_counted_and_found_where_the_walk_finds_them(texts, data):
    text = data.draw(texts)
    walked = list(units(text))
    assert count_units(text) == len(walked)
    assert [unit_start(text, i) for i in range(len(walked))] == [unit.start for unit in walked]
    assert unit_start(text, len(walked)) == unit_start(text, len(walked) + 3) == len(text)


@any_text
@given(data=st.data())
def test_a_shortened_text_ends_with_its_last_unit(texts, data):
    text = data.draw(texts)
    walked = list(units(text))
    for count in range(1, len(walked) + 3):
        assert shorten(text, count) == (text if count >= len(walked) else text[: walked[count - 1].end])


@pytest.mark.parametrize("space", SPACES)
def test_every_white_space_character_ends_a_word(space):
    assert count_units(f"a{space}b") == len(list(units(f"a{space}b"))) == 2
