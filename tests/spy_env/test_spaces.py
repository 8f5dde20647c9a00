"""A space for free text: takes what people and models write, fast, and refuses what makes no sense for it."""

import copy
import pickle
import time

import pytest
from gymnasium.spaces import Dict, Text, utils

from spy_env.spaces import FreeText

OPERATIONS = {
    "flatdim": lambda space: utils.flatdim(space),
    "flatten": lambda space: utils.flatten(space, space.sample()),
    "flatten_space": lambda space: utils.flatten_space(space),
    "unflatten": lambda space: utils.unflatten(space, [1]),
}


@pytest.mark.parametrize(
    "text",
    ["", "two words", "\\boxed{2}", "tab\tand\nline", "café", "谁是卧底？", "👩‍👧 🇨🇦", "\x00", "\U0010ffff", "a" * 20],
)
def test_any_text_that_fits_is_contained(text):
    assert text in FreeText(20)
    assert Dict(prompt=FreeText(20)).contains({"prompt": text})


@pytest.mark.parametrize("other", ["a" * 21, "é" * 21, None, 3, b"bytes", ["a"], ("a",), "\ud800", "half \udc00 emoji"])
def test_long_text_other_types_and_lone_surrogates_are_not(other):
    assert other not in FreeText(20)
    assert not Dict(prompt=FreeText(20)).contains({"prompt": other})


def least_seconds(function, tries=30):
    """Of many tries, since a busy machine only ever adds."""
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def test_asking_for_long_ascii_text_does_not_read_it():
    space, short, long = FreeText(10_000_000), "a", "a" * 10_000_000
    # Reading it would take milliseconds; that of `gymnasium.spaces.Text` takes more than a second.
    assert least_seconds(lambda: space.contains(long)) < 10 * least_seconds(lambda: space.contains(short)) + 1e-5


def test_asking_for_text_in_any_script_is_quick():
    space, long = FreeText(1_000_000), "谁é" * 50_000
    assert least_seconds(lambda: space.contains(long), tries=5) < 0.1  # read once: a few milliseconds here


def test_building_a_space_is_quick():
    assert least_seconds(lambda: FreeText(10_000_000), tries=5) < 0.01


def test_samples_are_seeded_varied_and_in_the_space():
    space, twin = FreeText(1000, seed=3), FreeText(1000, seed=3)
    samples = [space.sample() for _ in range(200)]
    assert samples == [twin.sample() for _ in range(200)]
    assert len({*samples}) > 150
    assert {len(sample) for sample in samples} == set(range(41))
    assert all(sample in space for sample in samples)
    space.seed(3)
    assert space.sample() == samples[0]
    space.seed(4)
    assert [space.sample() for _ in range(200)] != samples


@pytest.mark.parametrize("max_length", [0, 1, 7])
def test_samples_of_a_small_space_are_in_it(max_length):
    space = FreeText(max_length, seed=0)
    assert {len(space.sample()) for _ in range(200)} == set(range(max_length + 1))


@pytest.mark.parametrize("given", [{"mask": "x"}, {"probability": "x"}, {"mask": (None, None)}])
def test_a_mask_or_a_probability_is_refused(given):
    with pytest.raises(ValueError, match="can't be sampled with a mask or a probability"):
        FreeText(20).sample(**given)
    assert FreeText(20, seed=0).sample(mask=None, probability=None) == FreeText(20, seed=0).sample()


def test_spaces_are_equal_by_length():
    assert FreeText(20) == FreeText(20, seed=9)
    assert hash(FreeText(20)) == hash(FreeText(20))
    assert FreeText(20) != FreeText(21)
    assert FreeText(20) != Text(20)
    assert FreeText(20) != "FreeText(20)"
    assert repr(FreeText(20)) == "FreeText(20)"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_a_copy_is_equal_and_samples_on_alike(copied):
    space = FreeText(20, seed=5)
    space.sample()
    twin = copied(space)
    assert twin == space
    assert "谁是 é" in twin
    assert [twin.sample() for _ in range(20)] == [space.sample() for _ in range(20)]


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_flattening_is_refused_with_the_way_out(operation):
    with pytest.raises(ValueError, match=r"FreeText\(20\) can't be flattened: .*tokenize the prompt"):
        OPERATIONS[operation](FreeText(20))


@pytest.mark.parametrize("operation", ["flatdim", "flatten", "flatten_space"])
def test_flattening_an_observation_space_is_refused(operation):
    with pytest.raises(ValueError, match="flattened"):
        OPERATIONS[operation](Dict(prompt=FreeText(20)))
    assert not FreeText(20).is_np_flattenable
