"""Who is evaluated: a model behind one interface, loaded when it first has something to do."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trainers.engines import Engine, Reader
from trainers.engines.endpoint import EndpointEngine

# http://host:port/path:model; what follows the host's colon is its port
_URL_AND_MODEL = re.compile(r"(https?://(?:\[[^\]]+\]|[^/:#\[]+)(?::\d++(?=[/:#]|$))?+(?:/[^:#]*+)?+)[:#](.+)")
LONGEST = 16384  # prompt + reply in tokens, as published; shorter where the model is
BYTES_A_TOKEN = 3  # our guess for an endpoint, which counts no tokens: rather too many tokens than too few
WEIGHTS = (".safetensors", ".bin", ".json", ".jinja", ".model", ".txt")


@dataclass(slots=True)
class Contestant:
    """A model that answers."""

    role: str  # "model" or "base"
    name: str
    fingerprint: str  # changes with the weights and the engine
    reader: Reader
    max_len: int | None  # prompt + reply in tokens
    load: Callable[[], Engine]
    max_new_tokens: int | None = None  # cuts answers below their protocol's length, for trying things out
    opening: str = ""  # the chat template began the answer with it: a <think> that would else go unseen
    _engine: Engine | None = field(default=None, repr=False)

    @property
    def engine(self) -> Engine:
        """The engine, loaded on first use."""
        if self._engine is None:
            self._engine = self.load()
        return self._engine

    def close(self) -> None:
        """Let go of the engine and its memory."""
        self._engine = None


class EstimatedReader:
    """Token counts guessed from bytes, for an endpoint whose tokenizer isn't known."""

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """Return about the length of a prompt; rather too long."""
        return -(-len(prompt.encode()) // BYTES_A_TOKEN)


@dataclass(frozen=True, slots=True)
class _EncodedReader:
    encoder: Any

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """Return the prompt's length in tokens, chat template and prefill included."""
        return len(self.encoder.encode(prompt, prefill))


@dataclass(frozen=True, slots=True)
class Loading:
    """How models are loaded and asked, as flags give it."""

    engine: str = "transformers"
    max_len: int | None = None
    rows: int = 32  # replies generated at a time
    concurrency: int = 16  # requests to an endpoint at a time
    timeout: float = 600.0  # seconds for one request to an endpoint
    template_options: dict[str, Any] = field(default_factory=dict)
    gpu_memory_utilization: float = 0.9
    max_new_tokens: int | None = None


def contestant(role: str, name: str, loading: Loading) -> Contestant:
    """Return the model that a flag names: a folder, a hub id, ``smollm2-135m``, or an endpoint.

    Raises:
        ValueError: there is no such model.
    """
    options = loading.template_options
    suffix = f" {options}" if options else ""
    if endpoint := url_and_model(name):
        url, model = endpoint
        key = os.environ.get("OPENAI_API_KEY", "none")

        def load() -> Engine:
            return EndpointEngine(
                url, model, key, loading.timeout, concurrency=loading.concurrency, template_options=options
            )

        identity = f"{url}#{model}{suffix}"
        return Contestant(role, name, identity, EstimatedReader(), loading.max_len, load, loading.max_new_tokens)
    return _local(role, name, loading, suffix)


def url_and_model(text: str) -> tuple[str, str] | None:
    """Return an endpoint's address and model from ``URL:model``, ``URL#model`` or ``endpoint:URL#model``; None for other names.

    Raises:
        ValueError: an address without a model.
    """
    address = text.removeprefix("endpoint:")
    if not address.startswith(("http://", "https://")):
        return None
    if not (parts := _URL_AND_MODEL.fullmatch(address)):
        raise ValueError(
            f"endpoint {text!r} names no model; write URL:model, such as http://localhost:8000/v1:my-model"
        )
    return parts[1], parts[2]


def _local(role: str, name: str, loading: Loading, suffix: str) -> Contestant:
    from transformers import AutoConfig, AutoTokenizer

    from trainers.engines.encoder import Encoder
    from trainers.small_model import place_of

    folder = place_of(name)
    try:
        config = AutoConfig.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"no model at {name!r} ({error}); give a transformers folder, a hub id or URL:model"
        ) from error
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or loading.max_len or LONGEST
    max_len = loading.max_len or min(LONGEST, positions)
    if max_len > positions:
        raise ValueError(f"--max_len is {max_len}, and {name} has positions for {positions} tokens; give no more")
    if loading.engine != "transformers":
        suffix += f" by {loading.engine}"  # whose greedy texts differ, too
    encoder = Encoder(tokenizer, loading.template_options)
    beginning: str = encoder.tokenizer.decode(encoder.encode("?"), skip_special_tokens=False)
    return Contestant(
        role,
        name,
        fingerprint(folder, getattr(config, "_commit_hash", None)) + suffix,
        _EncodedReader(encoder),
        max_len,
        lambda: _engine(folder, encoder, max_len, loading),
        loading.max_new_tokens,
        opening="<think>" if beginning.rstrip().endswith("<think>") else "",
    )


def fingerprint(folder: str, commit: str | None) -> str:
    """Return a name for a model's content: a hub's commit, or the SHA-256 of the files in a folder."""
    if not Path(folder).is_dir():
        return f"{folder}@{commit or 'unknown'}"
    digest = hashlib.sha256()
    for file in sorted(path for path in Path(folder).iterdir() if path.suffix in WEIGHTS and path.is_file()):
        digest.update(file.name.encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return f"sha256:{digest.hexdigest()[:32]}"


def _engine(folder: str, encoder: Any, max_len: int, loading: Loading) -> Engine:
    import torch

    if loading.engine == "transformers":
        from trainers.engines.local import load_engine

        return load_engine(folder, loading.rows, loading.template_options)
    from trainers.engines.encoder import end_tokens
    from trainers.engines.vllm import VllmEngine

    return VllmEngine(
        folder,
        encoder,
        end_tokens(SimpleNamespace(generation_config=_generation_config(folder)), encoder.tokenizer),
        dtype=torch.bfloat16 if torch.cuda.is_available() else torch.float32,
        max_len=max_len,
        rows=loading.rows,
        gpu_memory_utilization=loading.gpu_memory_utilization,
        enforce_eager=False,
        enable_prefix_caching=True,
    )


def _generation_config(folder: str) -> Any:
    from transformers import AutoConfig, GenerationConfig

    try:
        return GenerationConfig.from_pretrained(folder)
    except OSError:  # the file is optional; a model's config names its ends, too
        return GenerationConfig.from_model_config(AutoConfig.from_pretrained(folder))
