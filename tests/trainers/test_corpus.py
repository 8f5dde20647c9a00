"""The stream of documents: what is held out, where it begins again, and where a resumed run goes on."""

import json
import sys
import types
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spy_env import task_names
from trainers.corpus import ABSTRACTS, Corpus

WITHOUT_DOCUMENTS = str(Path(__file__).with_name("tiny_task.py"))
AGAIN = "round {} of the documents begins"


def write_corpus(folder, texts, key="text"):
    """Write a JSONL file with one row per text; ids count from 0."""
    file = folder / "corpus.jsonl"
    file.write_text("".join(json.dumps({"id": str(i), key: text}) + "\n" for i, text in enumerate(texts)))
    return str(file)


@pytest.fixture
def source(tmp_path):
    """Seven documents, 0 to 6; 2 is too short to play."""
    return write_corpus(tmp_path, ["too short" if i == 2 else f"document number {i} of this corpus" for i in range(7)])


def corpus(source, held_out=0, limit=None, **options):
    """Return the corpus, and the list of its messages."""
    messages = []
    return Corpus("summarization", source, held_out=held_out, limit=limit, say=messages.append, **options), messages


def ids(documents, count):
    return [document.id for document in islice(documents, count)]


def test_the_first_documents_are_held_out_and_never_trained_on(source):
    made, _ = corpus(source, held_out=2)
    assert [document.id for document in made.held_out] == ["0", "1"]
    trained = ids(made.training(), 40)
    assert trained == ["3", "4", "5", "6"] * 10


def test_documents_too_short_to_play_are_left_out_and_named(source):
    made, messages = corpus(source, held_out=3)
    assert [document.id for document in made.held_out] == ["0", "1", "3"]
    assert ids(made.training(), 3) == ["4", "5", "6"]
    assert len(messages) == 1
    assert messages[0].startswith("documents: 3 to train on, 3 held out, 1 too short to play left out (")
    assert "corpus.jsonl:3: 2 words, at least 5 are needed" in messages[0]


def test_nothing_is_said_of_short_documents_where_there_are_none(tmp_path):
    _, messages = corpus(write_corpus(tmp_path, ["one two three four five"] * 3), held_out=1)
    assert messages == ["documents: 2 to train on, 1 held out"]


def test_a_new_round_begins_after_the_last_document_and_is_announced(source):
    made, messages = corpus(source)
    del messages[:]
    documents = made.training()
    assert ids(documents, 6) == ["0", "1", "3", "4", "5", "6"]
    assert messages == []
    assert next(documents).id == "0"
    assert messages == [AGAIN.format(2)]
    assert ids(documents, 12) == ["1", "3", "4", "5", "6", "0"] * 2
    assert messages == [AGAIN.format(number) for number in (2, 3, 4)]


@pytest.mark.parametrize(("consumed", "announced"), [(5, None), (6, 2), (7, None), (11, None), (12, 3), (13, None)])
def test_a_resumed_run_announces_only_the_rounds_that_it_begins(source, consumed, announced):
    made, messages = corpus(source)
    del messages[:]
    documents = made.training(consumed)
    next(documents)
    assert messages == ([AGAIN.format(announced)] if announced else [])
    del messages[:]
    ids(documents, 6)
    assert messages == [AGAIN.format(2 + consumed // 6)]


def test_rounds_that_are_over_are_not_read_again(source, monkeypatch):
    made, _ = corpus(source)
    read, whole = [], made._read

    def counted(*skipped):
        for document in whole(*skipped):
            read.append(document.id)
            yield document

    monkeypatch.setattr(made, "_read", counted)
    assert next(made.training(6 * 1_000_000 + 2)).id == "3"
    assert read == ["0", "1", "3"]


@given(consumed=st.integers(0, 30), held_out=st.integers(0, 5))
@settings(deadline=None, max_examples=30)
def test_a_resumed_run_gets_the_documents_it_would_have_got(consumed, held_out, tmp_path_factory):
    source = write_corpus(tmp_path_factory.mktemp("corpus"), [f"document number {i} of this corpus" for i in range(6)])
    made, _ = corpus(source, held_out)
    whole = list(islice(made.training(), consumed + 9))
    again, _ = corpus(source, held_out)
    assert list(islice(again.training(consumed), 9)) == whole[consumed:]
    assert [document.id for document in whole] == [str(held_out + i % (6 - held_out)) for i in range(consumed + 9)]


def test_two_streams_of_one_corpus_do_not_disturb_each_other(source):
    made, _ = corpus(source)
    first, second = made.training(), made.training()
    assert (ids(first, 3), ids(second, 2), ids(first, 2)) == (["0", "1", "3"], ["0", "1"], ["4", "5"])


def test_a_limit_keeps_the_first_documents_held_out_ones_among_them(source):
    made, messages = corpus(source, held_out=1, limit=3)
    assert ids(made.training(), 4) == ["1", "3", "1", "3"]
    assert messages[0].startswith("documents: 2 to train on, 1 held out")
    assert ids(corpus(source, limit=100)[0].training(), 7) == ["0", "1", "3", "4", "5", "6", "0"]


@pytest.mark.parametrize(("held_out", "limit", "found"), [(6, None, 6), (9, None, 6), (2, 2, 2), (0, 0, 0)])
def test_too_few_documents_to_train_on_are_refused_with_the_way_out(source, held_out, limit, found):
    with pytest.raises(ValueError, match=r"corpus.jsonl has (\d) playable documents, and (\d) are held out") as caught:
        corpus(source, held_out, limit)
    assert f"has {found} playable documents, and {held_out} are held out for evaluation" in str(caught.value)
    assert "give more documents or a smaller --eval.games" in str(caught.value)


def test_a_corpus_that_just_suffices_is_taken(source):
    assert ids(corpus(source, held_out=5)[0].training(), 3) == ["6", "6", "6"]


def test_a_file_is_read_to_its_end_before_anything_is_played(tmp_path):
    file = Path(write_corpus(tmp_path, ["one two three four five"] * 5))
    file.write_text(file.read_text() + "{broken\n")
    with pytest.raises(ValueError, match=r"corpus.jsonl:6: not JSON"):
        corpus(str(file))


@pytest.mark.parametrize(
    ("texts", "message"),
    [(["short"] * 3, "no playable document"), ([], "no playable document")],
)
def test_a_corpus_without_a_playable_document_is_refused(tmp_path, texts, message):
    with pytest.raises(ValueError, match=message):
        corpus(write_corpus(tmp_path, texts))


def test_a_corpus_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"no corpus at 'nowhere.jsonl'; give a .jsonl file"):
        corpus("nowhere.jsonl")


def test_the_field_that_holds_the_text_can_be_named(tmp_path):
    source = write_corpus(tmp_path, ["one two three four five"], key="body")
    assert ids(corpus(source, input_key="body")[0].training(), 1) == ["0"]
    with pytest.raises(ValueError, match=r"no field 'text'; the row has \['body', 'id'\]. Choose one with input_key"):
        corpus(source)


def test_a_folder_of_text_files_is_a_corpus(tmp_path):
    for name in ("b.txt", "a.md"):
        (tmp_path / name).write_text("one two three four five")
    made, _ = corpus(str(tmp_path), held_out=1)
    assert ([document.id for document in made.held_out], ids(made.training(), 2)) == (["a.md"], ["b.txt", "b.txt"])


@pytest.mark.parametrize("task", task_names())
def test_every_shipped_task_brings_documents_to_hold_out_and_to_train_on(task):
    messages = []
    made = Corpus(task, None, held_out=2, say=messages.append)
    count = int(messages[0].split()[1])
    round_of = ids(made.training(), count)
    assert len(set(round_of)) == count >= 2
    assert not set(round_of) & {document.id for document in made.held_out}
    assert messages == [f"documents: {count} to train on, 2 held out"]


def test_a_task_without_documents_asks_for_some():
    with pytest.raises(ValueError, match=r"tiny_task.py' ships no documents; give some with --data.documents"):
        Corpus(WITHOUT_DOCUMENTS, None)


def test_documents_given_go_before_the_tasks_own(source):
    assert ids(Corpus(WITHOUT_DOCUMENTS, source, say=lambda _: None).training(), 1) == ["0"]


def test_the_first_runs_abstracts_are_taken_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRL_CACHE", str(tmp_path))
    Path(write_corpus(tmp_path, ["an abstract of five words"])).rename(tmp_path / "aclsum_papers.jsonl")
    made, messages = corpus(ABSTRACTS)
    assert ids(made.training(), 1) == ["0"]
    assert messages[0] == "documents: 1 to train on, 0 held out"


def test_a_hubs_stream_is_read_no_further_than_needed(monkeypatch):
    read = []

    def load_dataset(name, config, split, streaming):
        assert (name, config, split, streaming) == ("some/set", None, "train", True)
        for number in range(1000):
            read.append(number)
            yield {"text": f"row {number} of an endless stream"}

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    made, messages = corpus("some/set::train:text", held_out=2)
    assert (read, messages) == ([0, 1, 2], [])
    assert ids(made.training(), 2) == ["train-2", "train-3"]
    assert messages == []
    assert ids(made.training(500), 2) == ["train-502", "train-503"]
    assert messages == ["reading past the first 500 documents of some/set::train:text"]
    assert ids(made.training(998), 2) == ["train-2", "train-3"], "its end is found on the way"
    assert messages[1:] == ["reading past the first 998 documents of some/set::train:text", AGAIN.format(2)]
