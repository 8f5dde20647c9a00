"""What the rollout's benchmark asks of an engine, in which order, and what it counts; its times are for people to read."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import asyncio
import importlib.util
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="vLLM's terms name its types")
transformers = pytest.importorskip("transformers", reason="the tokenizer is one of its")

from benchmarks.speed.gpu_check import byte_tokenizer
from benchmarks.speed.rollout import report
from benchmarks.speed.rollout_order import SCENARIOS, Generated, Scenario, documents_of, take_turns
from benchmarks.speed.throughput import main
from spy_env.masking import count_units

SMALL = Scenario("small", rows=1, words=30, referees=8, performance=6, vote=3)
MAX_LEN = 16384
TOKENIZER = byte_tokenizer()


class ClockedEngine:
    """Replies with spaces. Its clock counts how many generations have run in a row, one after another; it caches nothing."""

    def __init__(self):
        self.generated, self.clock, self.in_a_row = [], 0, []

    def params(self, length=1):
        return SimpleNamespace(max_tokens=length, min_tokens=1, top_p=1.0, temperature=1.0, stop_token_ids=None)

    async def generate(self, ids, params):
        begun = self.clock
        await asyncio.sleep(0.001)
        self.clock = max(self.clock, begun + 1)
        self.generated.append(Generated(tuple(ids), 0, params.max_tokens))
        done = SimpleNamespace(
            finish_reason="length", token_ids=TOKENIZER.encode(" " * params.max_tokens), logprobs=None
        )
        return SimpleNamespace(prompt_token_ids=ids, outputs=[done])

    async def forget(self):
        self.in_a_row.append(self.clock)
        self.generated, self.clock = [], 0

    def cpu_seconds(self):
        return 0.0


def measured(scenario, engine, rounds=1):
    documents = documents_of(None, scenario)
    found, games = asyncio.run(take_turns(scenario, documents, engine, TOKENIZER, MAX_LEN, rounds))
    asyncio.run(engine.forget())
    return report(scenario, found, games, TOKENIZER), found, games


@pytest.mark.parametrize(("referees", "in_a_row"), [(8, 2 + 8), (0, 2 + 5)])
def test_tables_generate_twice_in_a_row_where_the_released_order_waits_for_each_voter(referees, in_a_row):
    engine = ClockedEngine()
    measured(replace(SMALL, referees=referees), engine)
    assert engine.in_a_row == [0, 2, 2, in_a_row]


def test_every_way_asks_for_the_same_requests_of_the_same_lengths():
    _, found, (game,) = measured(SMALL, ClockedEngine(), rounds=2)
    asked = sorted((one.prompt_ids, one.length) for one in found["tables"][0].generated)
    assert sorted(length for _, length in asked) == [3] * 8 + [6] * 5
    assert [sorted((one.prompt_ids, one.length) for one in found[way][0].generated) for way in found] == [asked] * 3
    assert sorted(game.every_prompt) == sorted(one.prompt_ids for one in found["tables"][1].generated)


def test_ways_that_ask_for_different_things_are_not_compared():
    class Forgetful(ClockedEngine):
        async def generate(self, ids, params):
            output = await super().generate(ids, params)
            self.generated = self.generated[:12]
            return output

    with pytest.raises(RuntimeError, match="made other requests than the games"):
        measured(SMALL, Forgetful())


def test_what_is_prefilled_is_told_in_documents():
    class QuarterCached(ClockedEngine):
        async def generate(self, ids, params):
            output = await super().generate(ids, params)
            self.generated[-1] = Generated(tuple(ids), len(ids) // 4, params.max_tokens)
            return output

    row, _, games = measured(replace(SMALL, rows=2, referees=0), QuarterCached())
    assert row["document_tokens"] == [len(one.game.document.text.encode()) for one in games]
    assert row["requests"] == 2 * 10
    assert row["documents_asked"] == pytest.approx(
        sum(len(ids) for one in games for ids in one.every_prompt) / sum(row["document_tokens"]), abs=0.01
    )
    for of_game in (row["documents_prefilled"]["tables"], *row["documents_prefilled_by_game"]):
        assert of_game == pytest.approx(0.75 * row["documents_asked"], rel=0.1)


def test_documents_are_long_enough_and_those_of_a_corpus_stay_whole(tmp_path):
    for scenario in SCENARIOS:
        lengths = [count_units(document.text) for document in documents_of(None, scenario)]
        assert len(lengths) == scenario.rows
        assert all(scenario.words <= length < scenario.words + 130 for length in lengths)
    lines = [{"text": " ".join(["word"] * count)} for count in (20, 40, 50, 60)]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert [len(one.text.split()) for one in documents_of(str(corpus), replace(SMALL, rows=2))] == [40, 50]
    with pytest.raises(ValueError, match="has 3 documents of at least 30 words"):
        documents_of(str(corpus), replace(SMALL, rows=4))


def random_llama(folder):
    """Two layers with heads as wide as vLLM's attention on a CPU wants them, and a tokenizer of bytes."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=512,
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=MAX_LEN,
            bos_token_id=None,
            eos_token_id=TOKENIZER.eos_token_id,
        )
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return str(folder)


@pytest.mark.vllm
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM isn't installed")
def test_vllm_prefills_about_two_documents_where_ten_are_asked_for(tmp_path, capsys, monkeypatch):
    long = Scenario("long", rows=2, words=1500, referees=0, performance=24, vote=8)
    monkeypatch.setattr("benchmarks.speed.rollout.SCENARIOS", [long])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    flags = ["--rounds", "1", "--weights", random_llama(tmp_path), "--max-len", str(MAX_LEN), "--block", "32"]
    assert main(["rollout", *flags]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert row["requests"] == 2 * 10
    assert row["generated_tokens"] == 2 * 5 * (24 + 8)
    assert row["documents_asked"] > 10
    assert all(1 < documents < 2.5 for documents in row["documents_prefilled_by_game"])
    assert all(seconds > 0 for seconds in row["seconds"].values())
    assert all(seconds > 0 for seconds in row["cpu_seconds"].values())
