"""WritingPrompts without its forum's tags and its tokenizer's gaps."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.evaluation.data_sets import cleaned, in_words, tag_of
from tests.benchmarks.evaluation.shared_data import shared_data

CLEANED = {
    "[ WP ] You 've got ta choose : the king , or `` the fool '' ?": 'You\'ve gotta choose: the king, or "the fool"?',
    "[ EU ] It is n't Mordor ( yet ) .": "It isn't Mordor (yet).",
    "[ wp ] [ TT ] The dogs ' day .": "The dogs' day.",
    "( WP ) It costs $ 5 <newline> A week .": "It costs $5\nA week.",
    "[ Draco ] is a dragon 's name": "[Draco] is a dragon's name",
    "You can not go , it ’ s over ...": "You can not go, it’s over...",
    "Already clean, isn't it?": "Already clean, isn't it?",
    "[ WP ]": "",
}


@pytest.mark.parametrize("prompt", CLEANED)
def test_a_prompt_is_cleaned(prompt):
    assert cleaned(prompt) == CLEANED[prompt]


@pytest.mark.parametrize("prompt", CLEANED)
def test_what_is_clean_stays_as_it_is(prompt):
    assert cleaned(CLEANED[prompt]) == CLEANED[prompt]


def test_only_tags_of_the_forum_are_tags():
    assert [tag_of(text) for text in ("[ WP ] a", "[ip]b", "(CW): c", "[ NO ] d", "WP e", "")] == [
        *("WP", "IP", "CW"),
        *("", "", ""),
    ]


def test_what_is_no_prompt_is_left_out_and_counted():
    texts = ["[ WP ] A door .", "[ EU ] A door.", "[ IP ] A picture", "[ OT ] Weekly talk", "[ WP ]", "A key."]
    excluded = Counter()
    kept = in_words([{"prompt": text, "id": str(i)} for i, text in enumerate(texts)], excluded)
    assert kept == [{"prompt": "A door.", "id": "0"}, {"prompt": "A key.", "id": "5"}]
    assert excluded == {
        "no prompt in words ([ IP ])": 1,
        "no prompt in words ([ OT ])": 1,
        "no prompt": 1,
        "repeated prompt": 1,
    }


def test_real_prompts_are_cleaned_as_by_hand():
    file = shared_data("eval_writingprompts.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert sum(cleaned(row["prompt_raw"]) == row["prompt"] for row in rows) >= 0.95 * len(rows)
