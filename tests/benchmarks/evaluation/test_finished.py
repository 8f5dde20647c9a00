"""Finished work is found by its content, survives any kill, and is never mistaken for another's."""

from __future__ import annotations

import json

import pytest

from benchmarks.evaluation.generations import Finished, content_key


def test_what_was_added_is_found_by_this_run_and_the_next(tmp_path):
    file = tmp_path / "new" / "folder" / "work.jsonl"
    first = Finished(file)
    assert first.get("a") is None
    assert first.add("a", text="one\nline\u2028 or\r two", n=1) == {
        "key": "a",
        "text": "one\nline\u2028 or\r two",
        "n": 1,
    }
    first.add("b", text="会议")
    for found in (first, Finished(file)):
        assert found.get("a")["text"] == "one\nline\u2028 or\r two"
        assert found.get("b")["text"] == "会议"
        assert [row["key"] for row in found.rows()] == ["a", "b"]


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_the_half_line_of_a_killed_process_is_cut_off_and_written_again(tmp_path, cut):
    file = tmp_path / "work.jsonl"
    work = Finished(file)
    work.add("a", text="whole")
    work.add("b", text="会议")
    file.write_bytes(file.read_bytes()[:-cut])
    resumed = Finished(file)
    assert resumed.get("a") == {"key": "a", "text": "whole"}
    assert resumed.get("b") is None
    resumed.add("b", text="again")
    assert [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()] == ["whole", "again"]


@pytest.mark.parametrize("line", ["{}", "[1]", "5", "not JSON", '{"key": []}', ""])
def test_a_line_that_is_not_ours_is_named(tmp_path, line):
    file = tmp_path / "work.jsonl"
    Finished(file).add("a", n=1)
    with file.open("a") as more:
        more.write(line + "\n")
    with pytest.raises(ValueError, match=r"work\.jsonl:2 is no line of finished work .* remove the line"):
        Finished(file)


def test_of_two_lines_for_the_same_content_the_last_counts(tmp_path):
    work = Finished(tmp_path / "work.jsonl")
    work.add("a", n=1)
    work.add("a", n=2)
    assert Finished(work.file).get("a")["n"] == work.get("a")["n"] == 2


def test_half_a_character_is_kept_too(tmp_path):
    work = Finished(tmp_path / "work.jsonl")
    work.add("a", text="\ud83d")
    assert Finished(work.file).get("a")["text"] == "\ud83d"


def test_a_key_is_the_content_s_alone():
    assert content_key("ab", {"x": 1, "y": 2}) == content_key("ab", {"y": 2, "x": 1})
    keys = {
        content_key("ab", 1),
        content_key("a", "b1"),
        content_key("ab", "1"),
        content_key("ab", 1.5),
        content_key("ab"),
    }
    assert len(keys) == 5
    assert all(len(key) == 32 for key in keys)
    assert content_key("\ud83d") != content_key("?")
