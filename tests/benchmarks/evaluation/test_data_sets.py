"""Items come under our names, with ids of their own; what is left out is counted, and what is wrong is an error."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

from benchmarks.evaluation.data_sets import DataSet, Hub, file_of, json_rows, read_set

POEMS = DataSet(
    "poems", "Poems", Hub("owner/poems", "old"), {"text": ("text", "poem"), "gold": ("gold",)}, {"mood": ("mood",)}
)


def lines(folder, name, rows):
    folder.mkdir(exist_ok=True)
    text = "".join((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n" for row in rows)
    (folder / name).write_bytes(text.encode())
    return folder


def poems(count):
    return [{"id": i, "text": f"Poem {i}", "gold": "G"} for i in range(count)]


def test_columns_are_read_under_our_names_and_optional_ones_may_be_missing(tmp_path):
    rows = [
        {"id": "x", "poem": "A", "gold": "G", "more": 1},
        {"id": "y", "text": "B", "poem": "C", "gold": 0, "mood": "sad"},
    ]
    found = read_set(POEMS, lines(tmp_path, "poems.jsonl", rows), None, 0)
    assert found.rows == [
        {"text": "A", "gold": "G", "mood": None, "id": "x"},
        {"text": "B", "gold": 0, "mood": "sad", "id": "y"},
    ]
    assert (found.total, found.excluded, found.source) == (2, {}, str(tmp_path / "poems.jsonl"))


def test_what_is_empty_is_left_out_and_counted(tmp_path):
    empty = [{"text": value, "gold": "G"} for value in ("", " \n", None, [])] + [{"text": "B", "gold": None}]
    found = read_set(POEMS, lines(tmp_path, "poems.jsonl", [*empty, *poems(1)]), None, 0)
    assert (len(found.rows), found.total, found.excluded) == (1, 6, {"no text": 4, "no gold": 1})


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"text": "A"}], r"poems\.jsonl:1: Poems needs 'gold', in a column 'gold'; the row has \['text'\]"),
        ([*poems(2), {"gold": "A"}], r"poems\.jsonl:3: Poems needs 'text', in a column 'text' or 'poem'"),
        ([{"text": "A", "gold": ""}], r"has 1 rows and none that can be evaluated \(\{'no gold': 1\}\)"),
        ([], r"has 0 rows and none that can be evaluated \(it is empty\)"),
        (["{"], r"poems\.jsonl:1: not JSON"),
        ([*poems(1), "[" * 100_000], r"poems\.jsonl:2: not JSON"),
        ([*poems(1), "", "[1]"], r"poems\.jsonl:3: list instead of a JSON object"),
        (['{"text": "\\ud83d", "gold": "G"}'], r"poems\.jsonl:1: .*half a character"),
    ],
)
def test_bad_files_are_errors_that_say_where(tmp_path, rows, said):
    with pytest.raises(ValueError, match=said):
        read_set(POEMS, lines(tmp_path, "poems.jsonl", rows), None, 0)


def test_a_file_that_is_not_utf_8_is_an_error_and_a_byte_order_mark_is_not(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\xff"}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl:1: not JSON"):
        list(json_rows(tmp_path / "a.jsonl"))
    (tmp_path / "b.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "A"}\r\n\r\n{"text": "\\ud83d\\ude00"}')
    assert [row["text"] for row in json_rows(tmp_path / "b.jsonl")] == ["A", "😀"]


def test_every_item_has_an_id_of_its_own(tmp_path):
    rows = [{"_id": "a"}, {"id": "b"}, {"ID": 7}, {"unique_id": 0}, {"id": "b"}, {}, {"id": None}, {"id": ""}]
    rows = [{**row, "text": "A", "gold": "G"} for row in rows]
    found = read_set(POEMS, lines(tmp_path, "poems.jsonl", rows), None, 0)
    assert [row["id"] for row in found.rows] == ["a", "b#1", "7", "0", "b#4", "#5", "#6", "#7"]


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (["a", "a", "a#1"], ["a#0", "a#1#", "a#1"]),
        (["a#1", "a", "a"], ["a#1", "a#1#", "a#2"]),
        (["a", "a", "a#1", "a#1"], ["a#0", "a#1", "a#1#2", "a#1#3"]),
        (["#0", "", "#1", "#1#"], ["#0", "#1##", "#1", "#1#"]),
        (["a", "a", "a#0", "a#0#"], ["a#0##", "a#1", "a#0", "a#0#"]),
    ],
)
def test_ids_that_look_like_ours_stay_apart(tmp_path, given, ids):
    rows = [{"id": one, "text": "A", "gold": "G"} for one in given]
    found = read_set(POEMS, lines(tmp_path, "poems.jsonl", rows), None, 0)
    assert [row["id"] for row in found.rows] == ids
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_larger_limit_adds_to_the_items_of_a_smaller(tmp_path, seed):
    folder = lines(tmp_path, "poems.jsonl", poems(40))
    drawn = [[row["id"] for row in read_set(POEMS, folder, limit, seed).rows] for limit in (5, 10, 39, 40, 99, None)]
    for fewer, more in pairwise(drawn):
        assert set(fewer) <= set(more)
    assert list(map(len, drawn)) == [5, 10, 39, 40, 40, 40]
    assert all(ids == sorted(ids, key=int) for ids in drawn)
    assert drawn[0] == [row["id"] for row in read_set(POEMS, folder, 5, seed).rows]
    assert drawn[0] != ["0", "1", "2", "3", "4"]
    assert drawn[0] != [row["id"] for row in read_set(POEMS, folder, 5, seed + 1).rows]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_is_refused(tmp_path, limit):
    with pytest.raises(ValueError, match=f"limit is {limit}"):
        read_set(POEMS, lines(tmp_path, "poems.jsonl", poems(4)), limit, 0)


FILES = [
    (["poems.jsonl", "poems_old.jsonl", "eval_poems.jsonl"], "poems.jsonl"),
    (
        ["eval_poems_sample.jsonl", "poems_train.jsonl", "corpus_poems.jsonl", "othepoems.jsonl"],
        "eval_poems_sample.jsonl",
    ),
    (["poems2.jsonl", "poems.json", "POEMS.jsonl"], None),
    ([], None),
]


@pytest.mark.parametrize(("files", "found"), FILES)
def test_a_set_s_file_is_named_after_it_and_none_for_training_is_taken(tmp_path, files, found):
    for name in files:
        lines(tmp_path, name, poems(1))
    assert file_of("poems", tmp_path) == (found and tmp_path / found)
    assert (read_set(POEMS, tmp_path, None, 0) is None) == (found is None)


def test_files_that_could_both_be_meant_are_named(tmp_path):
    for name in ("eval_poems.jsonl", "old_poems.jsonl"):
        lines(tmp_path, name, poems(1))
    with pytest.raises(ValueError, match=r"\['eval_poems.jsonl', 'old_poems.jsonl'\]; name one poems.jsonl"):
        file_of("poems", tmp_path)


def test_a_folder_that_is_none_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="which is no folder"):
        file_of("poems", tmp_path / "missing")


def hub_that(answers, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=answers))


def test_the_hub_is_asked_for_what_the_set_names(monkeypatch):
    asked = []
    hub_that(lambda *args, **options: asked.append((args, options)) or poems(3), monkeypatch)
    found = read_set(POEMS, None, 2, 0)
    assert asked == [(("owner/poems", "old"), {"split": "test", "data_files": None, "revision": None})]
    assert (len(found.rows), found.total, found.source) == (2, 3, "owner/poems:old:test")


def test_a_hub_that_cannot_be_read_is_an_error_with_both_ways_out(monkeypatch):
    def fails(*_, **__):
        raise ConnectionError("no network")

    hub_that(fails, monkeypatch)
    with pytest.raises(
        ValueError, match=r"owner/poems:old:test can't be read .*no network.*--data FOLDER with poems\.jsonl"
    ):
        read_set(POEMS, None, None, 0)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[eval\]'"):
        read_set(POEMS, None, None, 0)
