"""Both packages' ROUGE-L against values worked by hand, and the texts that either of them can't take."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("rouge", reason="one of the two packages")
pytest.importorskip("rouge_score", reason="the other")
pytest.importorskip("jieba", reason="cuts Chinese into words")

from benchmarks.evaluation.rouge_scores import (
    LONGEST_ANSWER,
    google_package,
    has_words,
    is_chinese,
    is_cut,
    metrics,
    rouge_package,
)

# answer, reference, the rouge package's F, Google's F
WORKED = [
    ("the cat sat", "the cat sat", 1, 1),
    ("dogs bark", "the cat sat", 0, 0),
    # subsequence "the sat": 2 of 3 words and 2 of 4
    ("the dog sat", "the big cat sat", 2 * (2 / 3 * 1 / 2) / (2 / 3 + 1 / 2), 2 * (2 / 3 * 1 / 2) / (2 / 3 + 1 / 2)),
    # by sentences the union of subsequences holds every word; in one row "a b c d" and "a c b d" share three
    ("a b. c d", "a c. b d", 1, 3 / 4),
    # the rouge package counts each word once: 1 of 1 and 1 of 2; Google's every time: 1 of 4 and 1 of 2
    ("a a a a", "a b", 2 / 3, 1 / 3),
    # only Google's ignores case and punctuation
    ("The Cat!", "the cat", 0, 1),
]


@pytest.mark.parametrize(("answer", "reference", "rouge", "google"), WORKED)
def test_both_packages_give_what_is_worked_by_hand(answer, reference, rouge, google):
    assert rouge_package(answer, reference) == pytest.approx(rouge, abs=1e-7)
    assert google_package(answer, reference) == pytest.approx(google)


def test_the_best_reference_counts():
    for metric in metrics(chinese=False):
        assert metric.best("the cat sat", ["dogs bark", "the cat sat", "the"]) == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("nothing", ["", " ", "\n", "...", ". .", "。", "—", "😀🎉", "\u200b"])
def test_a_text_without_words_scores_nothing_on_either_side_and_never_raises(nothing):
    assert not has_words(nothing)
    for metric in (rouge_package, google_package):
        assert metric(nothing, "the cat") == metric("the cat", nothing) == metric(nothing, nothing) == 0


TEXTS = st.one_of(st.text(max_size=40), st.text(st.sampled_from("ab .\n。会议カナ한😀\ud83d\u0301"), max_size=40))


@given(TEXTS, TEXTS)
@settings(max_examples=200, deadline=None)
def test_no_text_raises_and_every_score_is_a_share(answer, reference):
    assert 0 <= rouge_package(answer, reference) <= 1
    assert 0 <= google_package(answer, reference) <= 1
    assert rouge_package(answer, answer) == pytest.approx(float(has_words(answer)), abs=1e-6)


IN_OTHER_SCRIPTS = {
    "simplified": ("今天我们讨论了预算问题", "会议今天讨论了公司的预算问题"),
    "traditional": ("今天我們討論了預算問題", "會議今天討論了公司的預算問題"),
    "Chinese with English": ("团队决定使用 PyTorch 训练模型", "会上团队决定用 PyTorch 训练新的模型"),
    "Chinese with emoji": ("预算通过了👍", "会议通过了预算👍"),
    "Japanese": ("東京は大きい都市です", "東京は日本で一番大きい都市です"),
    "Korean": ("서울은 큰 도시이다", "서울은 한국의 큰 도시이다"),
    "Russian": ("кошка сидит дома", "большая кошка сидит дома"),
    "Arabic": ("القطة في البيت", "القطة الكبيرة في البيت"),
    "French": ("l'été fut très chaud", "cet été fut chaud"),
}


@pytest.mark.parametrize("language", IN_OTHER_SCRIPTS)
def test_no_language_scores_0_for_being_that_language(language):
    answer, reference = IN_OTHER_SCRIPTS[language]
    for metric in (rouge_package, google_package):
        assert 0.2 < metric(answer, reference) < 1
        assert metric(reference, reference) == pytest.approx(1, abs=1e-6)


def test_chinese_is_compared_by_words_as_jieba_cuts_them():
    # 今天 | 讨论 | 预算 against 昨天 | 讨论 | 预算: two of three words in order
    assert rouge_package("今天讨论预算", "昨天讨论预算") == pytest.approx(2 / 3, abs=1e-7)
    assert google_package("今天讨论预算", "昨天讨论预算") == pytest.approx(2 / 3)


def test_the_reference_decides_which_language_is_compared():
    assert is_chinese("会议讨论了 PyTorch")
    assert is_chinese("ひらがな")
    assert not is_chinese("The meeting in Beijing (北京) was about the budget for the next year.")
    assert not is_chinese("한국어는 띄어 쓴다")
    assert not is_chinese("")
    assert not is_chinese("1234.")
    assert rouge_package("the meeting", "会议讨论了预算") == 0


def test_texts_longer_than_the_packages_recursion_are_scored():
    limit = sys.getrecursionlimit()
    answer = " ".join(f"w{i}" for i in range(limit * 2 // 3))
    reference = "w0 " + " ".join(f"v{i}" for i in range(limit * 2 // 3))  # one word in common, at the far end
    assert rouge_package(answer, reference) == pytest.approx(2 / (limit * 4 // 3 + 1), rel=0.01)
    assert rouge_package(answer, answer) == pytest.approx(1, abs=1e-7)
    assert sys.getrecursionlimit() == limit


def test_an_answer_without_end_is_cut_before_it_is_scored():
    endless = "word. " * 200_000
    assert is_cut(endless)
    assert not is_cut("word " * LONGEST_ANSWER)
    kept = ("word. " * LONGEST_ANSWER).strip()
    assert rouge_package(endless, "a word") == rouge_package(kept, "a word") > 0
    assert google_package(endless, "a word") == google_package(kept, "a word") > 0


def test_each_metric_is_named_by_its_package_and_says_where_jieba_is_used():
    rouge, google = metrics(chinese=False)
    assert (rouge.name, google.name) == ("rouge-l F (rouge 1.0.1)", "rougeL F (rouge-score 0.1.2, no stemmer)")
    assert all("jieba" in metric.name for metric in metrics(chinese=True))
    assert (rouge.score, google.score) == (rouge_package, google_package)


@pytest.mark.parametrize("missing", ["rouge", "rouge_score", "jieba"])
def test_a_missing_package_is_named_with_the_way_to_it(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=rf"package {missing}: pip install -e '\.\[eval\]'"):
        metrics(chinese=True)
