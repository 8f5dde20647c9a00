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
BYTES_A_TOKEN = 3  # our guess for an endpoint, which tells no token counts: rather too many tokens than too few
WEIGHTS = (".safetensors", ".bin", ".json", ".jinja", ".model", ".txt")


@dataclass(slots=True)
class Contestant:
    """A model that answers. ``fingerprint`` changes with its weights and engine; ``max_len`` is prompt + reply in tokens, or None.

    ``max_new_tokens`` bounds every answer below its protocol's length, for trying things out; None doesn't. ``opening``:
    what the chat template has begun the answer with, such as ``<think>``; else unfinished thinking would pass for an answer.
    """

    role: str  # "model" or "base"
    name: str
    fingerprint: str
    reader: Reader
    max_len: int | None
    load: Callable[[], Engine]
    max_new_tokens: int | None = None
    opening: str = ""
    _engine: Engine | None = field(default=None, repr=False)

    @property
    def engine(self) -> Engine:
        """What generates; loaded on first use."""
        if self._engine is None:
            self._engine = self.load()
        return self._engine

    def close(self) -> None:
        """Let go of the engine and its memory."""
        self._engine = None


class EstimatedReader:
    """Token counts guessed from bytes, for an endpoint whose tokenizer isn't known."""

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """About the length of a prompt; rather too long."""
        return -(-len(prompt.encode()) // BYTES_A_TOKEN)


def url_and_model(text: str) -> tuple[str, str] | None:
    """An endpoint's address and model from ``URL:model``, ``URL#model`` or ``endpoint:URL#model``; None where it is none.

    Raises:
        ValueError: an address without a model.
    """
    address = text.removeprefix("endpoint:")
    if not address.startswith(("http://", "https://")):
        return None
    if not (found := _URL_AND_MODEL.fullmatch(address)):
        raise ValueError(
            f"endpoint {text!r} names no model; write URL:model, such as http://localhost:8000/v1:my-model"
        )
    return found[1], found[2]


@dataclass(frozen=True, slots=True)
class Loading:
    """How models are loaded, as flags give it."""

    engine: str = "transformers"
    max_len: int | None = None
    rows: int = 32  # replies generated at a time
    concurrency: int = 16  # requests to an endpoint at a time
    timeout: float = 600.0  # seconds for one request to an endpoint
    template_options: dict[str, Any] = field(default_factory=dict)
    gpu_memory_utilization: float = 0.9


def contestant(role: str, name: str, loading: Loading) -> Contestant:
    """The model that a flag names: a folder, a hub id, ``smollm2-135m``, or an endpoint.

    Raises:
        ValueError: there is no such model.
    """
    if endpoint := url_and_model(name):
        url, model = endpoint
        key, options = os.environ.get("OPENAI_API_KEY", "none"), loading.template_options
        return Contestant(
            role,
            name,
            f"{url}#{model}" + (f" {options}" if options else ""),
            EstimatedReader(),
            loading.max_len,
            lambda: EndpointEngine(
                url, model, key, loading.timeout, concurrency=loading.concurrency, template_options=options
            ),
        )
    return _local(role, name, loading)


def _local(role: str, name: str, loading: Loading) -> Contestant:
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
    if loading.max_len and loading.max_len > positions:
        raise ValueError(
            f"--max_len is {loading.max_len}, and {name} has positions for {positions} tokens; give no more"
        )
    encoder = Encoder(tokenizer, loading.template_options)
    max_len = loading.max_len or min(LONGEST, positions)
    return Contestant(
        role,
        name,
        fingerprint(folder, getattr(config, "_commit_hash", None))
        + (f" {loading.template_options}" if loading.template_options else "")
        + (f" by {loading.engine}" if loading.engine != "transformers" else ""),  # whose greedy texts differ, too
        _EncodedReader(encoder),
        max_len,
        lambda: _engine(folder, encoder, max_len, loading),
        opening=_opening(encoder),
    )


def _opening(encoder: Any) -> str:
    """What the chat template puts into the answer: an opened ``<think>``, or nothing that matters here."""
    prompt: str = encoder.tokenizer.decode(encoder.encode("?"), skip_special_tokens=False)
    return "<think>" if prompt.rstrip().endswith("<think>") else ""


@dataclass(frozen=True, slots=True)
class _EncodedReader:
    encoder: Any

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """The prompt's length in tokens, chat template and prefill included."""
        return len(self.encoder.encode(prompt, prefill))


def fingerprint(folder: str, commit: str | None) -> str:
    """What tells two models apart: a hub's commit, or the SHA-256 of the files in a folder."""
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

    on_gpu = torch.cuda.is_available()
    return VllmEngine(
        folder,
        encoder,
        end_tokens(SimpleNamespace(generation_config=_generation_config(folder)), encoder.tokenizer),
        dtype=torch.bfloat16 if on_gpu else torch.float32,
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
