"""Corpora: what can be read, what is skipped, and what is an error that names file and line."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spy_env.documents import PLAYABLE_UNITS, Document, Skipped, read_documents, shorten
from spy_env.masking import units
from spy_env.tasks import load_task, shipped_documents, task_names

ROOT = Path(__file__).parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"
FIVE = "one two three four five"


def corpus(folder, *lines):
    """A JSONL file of these lines; rows are dumped, bytes are taken as they are."""
    path = folder / "corpus.jsonl"
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


def texts(source, **options):
    return [document.text for document in read_documents(source, **options)]


def test_rows_become_documents_with_their_own_ids_or_file_and_line(tmp_path):
    path = corpus(tmp_path, {"id": "a", "text": FIVE}, b"", {"text": FIVE + " six"}, {"id": 7, "text": FIVE})
    assert list(read_documents(path)) == [
        Document("a", FIVE),
        Document("corpus.jsonl:3", FIVE + " six"),
        Document("7", FIVE),
    ]


def test_another_field_can_hold_the_text(tmp_path):
    path = corpus(tmp_path, {"text": "no", "report": FIVE})
    assert texts(path, input_key="report") == [FIVE]


def test_unplayable_documents_are_skipped_counted_and_named(tmp_path):
    path = corpus(tmp_path, *({"text": text} for text in ("", " \n\t\u3000", "two words", FIVE, "今天下雨")))
    skipped = Skipped()
    assert texts(path, skipped=skipped) == [FIVE]
    assert skipped.count == 4
    assert skipped.examples == [
        f"{path}:1: 0 words, at least 5 are needed",
        f"{path}:2: 0 words, at least 5 are needed",
        f"{path}:3: 2 words, at least 5 are needed",
        f"{path}:5: 4 words, at least 5 are needed",
    ]


def test_only_the_first_few_skipped_ones_are_named(tmp_path):
    skipped = Skipped()
    list(read_documents(corpus(tmp_path, *[{"text": "short"}] * 12, {"text": FIVE}), skipped=skipped))
    assert str(skipped).endswith("corpus.jsonl:5: 1 words, at least 5 are needed; and 7 more")


@pytest.mark.parametrize("lines", [[], [b"", b"  "], [{"text": "too short"}]])
def test_a_corpus_without_any_playable_document_is_an_error(tmp_path, lines):
    path = corpus(tmp_path, *lines)
    with pytest.raises(ValueError, match=r"corpus\.jsonl: no playable document.*5 words or more") as caught:
        list(read_documents(path))
    assert ("corpus.jsonl:1: 2 words" in str(caught.value)) == (lines == [{"text": "too short"}])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b'{"text": "caf\xe9 one two three four"}', "not UTF-8"),
        ({"story": FIVE, "title": "t"}, r"no field 'text'; the row has \['story', 'title'\].*input_key"),
        ({"id": "x", "text": FIVE}, "the id 'x' occurs twice"),
        (b'{"text": "one two', "not JSON"),
        (b'{"text": "a b c d e"} {"text": "a b c d e"}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"text": "a b c d e", "number": ' + b"1" * 5000 + b"}", "not JSON"),
        (b'["a", "b"]', "list instead of a JSON object"),
        (b'"one two three four five"', "str instead of a JSON object"),
        (b"null", "NoneType instead of a JSON object"),
        ({"text": None}, "field 'text' holds NoneType, not text"),
        ({"text": ["a"]}, "field 'text' holds list, not text"),
        ({"text": "lone \ud800 one two three four"}, "lone surrogate"),
    ],
)
def test_a_wrong_line_is_an_error_that_names_file_and_line(tmp_path, wrong, message):
    path = corpus(tmp_path, {"id": "x", "text": FIVE}, b"", wrong)
    with pytest.raises(ValueError, match=rf"corpus\.jsonl:3: .*{message}"):
        list(read_documents(path))


def test_documents_before_a_wrong_line_are_yielded_first(tmp_path):
    stream = read_documents(corpus(tmp_path, {"text": FIVE}, b"{"))
    assert next(stream).text == FIVE
    with pytest.raises(ValueError, match=r"corpus\.jsonl:2"):
        next(stream)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    assert texts(corpus(tmp_path, b"\xef\xbb\xbf" + json.dumps({"text": FIVE}).encode())) == [FIVE]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_bytes(b"\xef\xbb\xbf" + FIVE.encode())
    assert texts(tmp_path / "folder") == [FIVE]


def test_ten_megabytes_in_one_line_are_one_document(tmp_path):
    long = "word " * 2_000_000
    assert texts(corpus(tmp_path, {"text": long})) == [long]
    assert shorten(long, 1000) == ("word " * 1000).rstrip()
    skipped = Skipped()
    assert texts(corpus(tmp_path, {"text": "x" * 10_000_000}, {"text": FIVE}), skipped=skipped) == [FIVE]
    assert skipped.examples == [f"{tmp_path / 'corpus.jsonl'}:1: 1 words, at least 5 are needed"]


def test_a_folder_of_text_files_is_read_in_name_order(tmp_path):
    for name, text in [("b.txt", FIVE), ("a.md", FIVE + " of a"), ("c.txt", "short"), ("d.csv", FIVE)]:
        (tmp_path / name).write_text(text)
    (tmp_path / "sub.txt").mkdir()
    skipped = Skipped()
    found = [(document.id, document.text) for document in read_documents(tmp_path, skipped=skipped)]
    assert found == [("a.md", FIVE + " of a"), ("b.txt", FIVE)]
    assert (skipped.count, skipped.examples[0].split(":")[0]) == (1, str(tmp_path / "c.txt"))


def test_a_text_file_in_another_encoding_is_named(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 " * 5)
    with pytest.raises(ValueError, match=r"latin\.txt: not UTF-8 .*iconv"):
        list(read_documents(tmp_path))


def test_an_empty_folder_a_single_text_file_and_a_wrong_path_are_errors(tmp_path):
    (tmp_path / "one.txt").write_text(FIVE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty holds no \.txt or \.md files"):
        list(read_documents(tmp_path / "empty"))
    with pytest.raises(ValueError, match=r"one\.txt is one text file; give its folder"):
        list(read_documents(tmp_path / "one.txt"))
    with pytest.raises(ValueError, match=r"no corpus at '.*missing\.jsonl'; give a \.jsonl file, a folder"):
        list(read_documents(tmp_path / "missing.jsonl"))


def fake_hub(monkeypatch, rows):
    """A ``datasets`` module that notes how it is asked and streams ``rows``."""
    asked = []

    def load_dataset(*args, **options):
        asked.append((args, options))
        return iter(rows)

    module = ModuleType("datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return asked


@pytest.mark.parametrize(("source", "config"), [("org/name::train:report", None), ("org/name:3:train:report", "3")])
def test_a_hub_data_set_is_streamed(monkeypatch, source, config):
    asked = fake_hub(monkeypatch, [{"report": FIVE}, {"report": "short"}, {"report": FIVE}])
    assert list(read_documents(source)) == [Document("train-0", FIVE), Document("train-2", FIVE)]
    assert asked == [(("org/name", config), {"split": "train", "streaming": True})]


def test_a_hub_data_set_is_not_read_ahead(monkeypatch):
    fake_hub(monkeypatch, ({"report": FIVE} if i < 1 else pytest.fail("read ahead") for i in range(2)))
    assert next(read_documents("org/name::train:report")).id == "train-0"


def test_a_hub_row_without_the_column_is_named(monkeypatch):
    fake_hub(monkeypatch, [{"text": FIVE}])
    with pytest.raises(ValueError, match=r"org/name::train:report row 0: no field 'report'; the row has \['text'\]"):
        list(read_documents("org/name::train:report"))


def test_a_hub_data_set_without_the_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # what an import of a missing module finds
    with pytest.raises(ValueError, match=r"pip install -e '.\[data\]'"):
        list(read_documents("org/name::train:text"))


STREAM = """
import resource, sys
from spy_env.documents import read_documents

def peak_mb():  # VmHWM where there is one: on Linux getrusage's maximum begins at the parent's
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)

print(sum(1 for _ in read_documents(sys.argv[1])), peak_mb())
"""


def test_a_hundred_thousand_documents_stream_in_little_memory(tmp_path):
    path = tmp_path / "large.jsonl"
    text = "word " * 200  # 1 kB: all of them together would not fit the limit
    with path.open("w") as file:
        file.writelines(f'{{"id": "{i}", "text": "{text}"}}\n' for i in range(100_000))
    command = [sys.executable, "-c", STREAM, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    path.unlink()
    count, peak_mb = run.stdout.split()
    assert int(count) == 100_000
    assert float(peak_mb) < 100  # 300 are promised


@pytest.mark.parametrize(
    ("text", "max_units", "expected"),
    [
        ("one two three", 2, "one two"),
        ("one two three", 3, "one two three"),
        ("one two three ", 3, "one two three "),
        ("one two three", 9, "one two three"),
        ("  one\n two", 1, "  one"),
        ("今天下雨", 2, "今天"),
        ("か\u3099き", 1, "か\u3099"),
        ("", 5, ""),
    ],
)
def test_a_text_is_cut_after_a_whole_unit(text, max_units, expected):
    assert shorten(text, max_units) == expected


@given(st.text(st.sampled_from("ab \n好か\u3099"), max_size=40), st.integers(1, 12))
def test_a_shortened_text_is_a_beginning_with_at_most_so_many_units(text, max_units):
    short = shorten(text, max_units)
    assert text.startswith(short)
    assert list(units(short)) == list(units(text))[:max_units]


@pytest.mark.parametrize("name", task_names())
def test_every_task_ships_at_least_forty_playable_documents(name):
    task, skipped = load_task(name), Skipped()
    documents = list(read_documents(task.documents, skipped=skipped))
    assert documents == list(shipped_documents(task))
    assert skipped.count == 0
    assert len({document.id for document in documents}) == len({document.text for document in documents}) >= 40
    assert min(sum(1 for _ in units(document.text)) for document in documents) >= PLAYABLE_UNITS


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared corpora are not beside this checkout")
def test_the_shared_corpora_can_be_read():
    paths = sorted(SHARED_DATA.glob("corpus_*.jsonl"))
    assert len(paths) >= 5
    for path in paths:
        lines = path.read_text(encoding="utf-8").count("\n")
        skipped = Skipped()
        assert sum(1 for _ in read_documents(path, skipped=skipped)) == lines - skipped.count > 50


def test_an_id_that_is_null_is_no_id(tmp_path):
    file = tmp_path / "corpus.jsonl"
    file.write_text('{"id": null, "text": "one two three four five"}\n' * 2, encoding="utf-8")
    assert [document.id for document in read_documents(file)] == ["corpus.jsonl:1", "corpus.jsonl:2"]
