"""Texts before and after training against summaries that no vote uses."""

import json

import pytest

pytest.importorskip("rouge_score", reason="of the eval extra")

from benchmarks.quality import compare, main, quality, read_summaries
from spy_env import Document, RawReply, Rules, deal, write_games

TEXT = "alpha bravo charlie delta echoes foxtrot golfing hotels indigo juliet kilos limas"
SUMMARY = "alpha delta golfing limas"


def played(number, said, name="d"):
    game = deal(Document(name, TEXT), "summarization", Rules(players=4, mask_fraction=0.5), str(number))
    game = game.with_replies({seat: RawReply(said if seat != game.spy else "nothing") for seat in game.players})
    return game.with_replies({seat: RawReply(r"\boxed{1}") for seat in game.voters})


def test_rouge_is_of_civilians_against_the_summary_and_not_the_document():
    measured = quality(played(0, "alpha delta"), SUMMARY)
    assert measured["ROUGE-L precision"] == 1
    assert measured["ROUGE-L recall"] == 0.5
    assert measured["ROUGE-L F to the summary"] == pytest.approx(2 / 3)
    assert measured["overlap with the document"] == 1
    assert quality(played(0, "bravo charlie"), SUMMARY)["ROUGE-L F to the summary"] == 0


def test_a_run_is_read_from_its_folder_and_changes_are_paired(tmp_path, capsys):
    games = tmp_path / "run" / "games"
    write_games(games / "eval_before.jsonl", [played(i, "bravo") for i in range(4)])
    write_games(games / "eval_after.jsonl", [played(i, "alpha delta") for i in range(4)])
    summaries = tmp_path / "s.jsonl"
    summaries.write_text(json.dumps({"id": "d", "text": TEXT, "summary": SUMMARY}) + "\n")
    assert main([str(tmp_path / "run"), "--summaries", str(summaries)]) == 0
    assert "| ROUGE-L F to the summary | 0.000 | 0.667 | 0.667 [0.667, 0.667] |" in capsys.readouterr().out


def test_games_of_other_deals_and_documents_without_a_summary_are_refused():
    one = [played(0, "bravo")]
    with pytest.raises(ValueError, match="aren't the same deals"):
        compare(one, [played(1, "bravo")], {"d": SUMMARY})
    with pytest.raises(ValueError, match="none of 1 documents has a summary"):
        compare(one, one, {"e": SUMMARY})


def test_a_row_without_a_summary_is_named(tmp_path):
    file = tmp_path / "s.jsonl"
    file.write_text('{"id": "d"}\n')
    with pytest.raises(ValueError, match=r"needs an id and a summary; there is \{'id': 'd'\}"):
        read_summaries(file)
