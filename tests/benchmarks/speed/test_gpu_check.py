"""The check of a GPU, tried with tiny shapes on what is here."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="the check runs a model")
pytest.importorskip("transformers", reason="the model is one of its")

from benchmarks.speed.gpu_check import byte_tokenizer, main


def test_it_trains_both_stages_and_compares_shared_with_plain(capsys):
    assert main(["--small"]) == 0
    report = json.loads(capsys.readouterr().out)["random_qwen3"]
    assert [row["stage"] for row in report["iterations"]] == ["detection", "performing"]
    for row in report["iterations"]:
        assert row["grad_norm"] > 0
        assert row["logp_difference_max"] < 1e-4
        assert row["generated_tokens_per_s"] > 0
        assert row["trained_tokens_per_s"] > 0
    assert report["same_log_probabilities"]["max"] < 1e-4
    compared = report["shared_against_plain"]
    assert compared["ratio"] == compared["plain"]["seconds"] / compared["shared"]["seconds"]
    assert compared["shared"]["sharing"] == "cascade"
    assert compared["plain"]["sharing"] is None


def test_nothing_new_begins_when_time_is_out(capsys):
    with pytest.raises(ValueError, match="no iteration"):
        main(["--small", "--minutes", "0"])


@pytest.mark.parametrize("text", ["plain", "héllo 世界\n\t", "a\x00b", "|<im>| \\boxed{1}"])
def test_the_tokenizer_has_a_token_for_every_byte(text):
    tokenizer = byte_tokenizer()
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids) == text
