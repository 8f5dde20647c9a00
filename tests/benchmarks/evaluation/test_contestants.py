"""Who is evaluated: endpoints and folders by what a flag says, and weights told apart."""

from __future__ import annotations

import pytest

from benchmarks.evaluation.contestants import (
    LONGEST,
    EstimatedReader,
    Loading,
    contestant,
    fingerprint,
    url_and_model,
)

ENDPOINTS = {
    "http://localhost:8000/v1:my-model": ("http://localhost:8000/v1", "my-model"),
    "http://localhost:8000/v1#my-model": ("http://localhost:8000/v1", "my-model"),
    "endpoint:http://localhost:8000/v1#my-model": ("http://localhost:8000/v1", "my-model"),
    "https://api.example.org/v1:gpt-4o-2024-08-06": ("https://api.example.org/v1", "gpt-4o-2024-08-06"),
    "http://localhost:11434/v1:llama3:8b": ("http://localhost:11434/v1", "llama3:8b"),
    "http://localhost:11434/v1#llama3:8b": ("http://localhost:11434/v1", "llama3:8b"),
    "http://localhost:8000:m": ("http://localhost:8000", "m"),
    "http://localhost:8000/:m": ("http://localhost:8000/", "m"),
    "http://localhost:m": ("http://localhost", "m"),
    "http://localhost:7b": ("http://localhost", "7b"),
    "http://localhost:8000:7b:q4": ("http://localhost:8000", "7b:q4"),
    "http://127.0.0.1:8000/v1:Qwen/Qwen3-4B": ("http://127.0.0.1:8000/v1", "Qwen/Qwen3-4B"),
    "http://[::1]:8000/v1:m": ("http://[::1]:8000/v1", "m"),
    "http://[2001:db8::1]:llama3:8b": ("http://[2001:db8::1]", "llama3:8b"),
}


@pytest.mark.parametrize("text", ENDPOINTS)
def test_an_endpoint_is_an_address_and_a_model(text):
    assert url_and_model(text) == ENDPOINTS[text]


@pytest.mark.parametrize("text", ["Qwen/Qwen3-4B", "./runs/1", "/tmp/a:b", r"C:\models\m", "smollm2-135m", ""])
def test_anything_else_is_a_folder_or_a_hub_id(text):
    assert url_and_model(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost:8000/v1",
        "http://localhost:8000",
        "http://localhost",
        "http://[::1]:8000/v1",
        "http://h/v1:",
        "http://",
    ],
)
def test_an_address_without_a_model_is_an_error_that_shows_the_form(text):
    with pytest.raises(ValueError, match=r"names no model; write URL:model"):
        url_and_model(text)


def test_an_endpoint_is_named_by_address_and_model_and_asked_as_it_is_told(serve, monkeypatch):
    from tests.chat_server import says
    from trainers.engines import Request, Sampling

    server = serve(lambda *_: says("hi"))
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    who = contestant("model", f"{server.url}:llama3:8b", Loading(concurrency=3, max_len=9000))
    assert (who.role, who.fingerprint, who.max_len) == ("model", f"{server.url}#llama3:8b", 9000)
    assert "secret" not in repr(who)
    assert who.engine.generate([Request("p", "s", Sampling(5))])[0].text == "hi"
    assert server.received[0]["model"] == "llama3:8b"
    before = who.engine
    assert who.engine is before
    who.close()
    assert who.engine is not before


def test_an_endpoint_s_tokens_are_guessed_rather_too_many():
    count = EstimatedReader().count_tokens
    assert (count("", ""), count("abc", ""), count("abcd", ""), count("会议", "")) == (0, 1, 2, 2)


def test_a_fingerprint_is_the_weights_and_what_reads_prompts(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return fingerprint(str(tmp_path), None)

    seen = [write("model.safetensors", "w"), write("config.json", "{}"), write("chat_template.jinja", "t")]
    seen += [write("model.safetensors", "v"), write("model-2.safetensors", "v")]
    assert len(set(seen)) == 5
    assert write("README.md", "read me") == seen[-1]
    assert write("model.safetensors", "v") == seen[-1]
    assert seen[-1].startswith("sha256:")
    (tmp_path / "model-2.safetensors").rename(tmp_path / "model-3.safetensors")
    assert fingerprint(str(tmp_path), None) not in seen


def test_a_hub_s_model_is_its_commit():
    assert fingerprint("owner/model", "abc") == "owner/model@abc"
    assert fingerprint("owner/model", None) == "owner/model@unknown"


def test_no_model_is_an_error_that_says_what_would_be_one(tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="reads folders")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match=r"no model at .*give a transformers folder, a hub id or URL:model"):
        contestant("model", str(tmp_path / "missing"), Loading())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the model runs on it")
    pytest.importorskip("transformers", reason="the model is one of its")
    from tests.trainers import tiny_models

    return tiny_models.save("llama", tmp_path / "model")


def test_a_folder_s_model_reads_prompts_without_being_loaded(folder):
    who = contestant("base", str(folder), Loading())
    assert who._engine is None
    assert who.reader.count_tokens("plum fig", "") == 4  # <user> plum fig <assistant>
    assert who.max_len == min(LONGEST, 128)
    assert contestant("base", str(folder), Loading(max_len=64)).max_len == 64
    with pytest.raises(ValueError, match=r"--max_len is 129, .* has positions for 128"):
        contestant("base", str(folder), Loading(max_len=129))
    assert who.fingerprint == contestant("model", str(folder), Loading()).fingerprint
    thinking = Loading(template_options={"enable_thinking": False})
    assert who.fingerprint != contestant("base", str(folder), thinking).fingerprint
    assert who.fingerprint != contestant("base", str(folder), Loading(engine="vllm")).fingerprint


def test_a_folder_s_engine_answers(folder):
    from trainers.engines import Request, Sampling

    who = contestant("model", str(folder), Loading())
    replies = who.engine.generate([Request("plum fig", str(i), Sampling(5, greedy=True)) for i in range(2)])
    assert replies[0].ids == replies[1].ids
    assert who.engine.count_tokens("plum fig", "") == who.reader.count_tokens("plum fig", "")


def test_thinking_that_the_template_opens_and_the_model_never_closes_is_no_answer(tmp_path):
    from transformers import AutoTokenizer

    from benchmarks.evaluation.generations import Ask, Finished, answer_all
    from benchmarks.speed.gpu_check import random_qwen3
    from trainers.engines import Sampling
    from trainers.engines.players import ScriptedEngine

    folder = random_qwen3(str(tmp_path / "model"), small=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    closed = contestant("model", folder, Loading())
    tokenizer.chat_template = tokenizer.chat_template.replace("assistant\n", "assistant\n<think>\n")
    tokenizer.save_pretrained(folder)
    opened = contestant("model", folder, Loading())
    assert (closed.opening, opened.opening) == ("", "<think>")
    replies = {"a": r"First guess \boxed{18}. But", "b": r"So. </think> It is \boxed{17}."}
    opened.load = lambda: ScriptedEngine(lambda prompt: replies[prompt])
    asks = [Ask("set", name, name, Sampling(9)) for name in replies]
    unfinished, finished = answer_all(opened, asks, Finished(tmp_path / "generations.jsonl"), 0, "texts")
    assert (unfinished.said, finished.said) == ("", r"It is \boxed{17}.")
    assert not unfinished.failed
