"""Tasks and prompts by name: one that comes with the package, a file from anywhere, or ``module:ATTRIBUTE``."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def load_named(name: str, kind: type[T], word: str, shipped: Sequence[str]) -> T:
    """Load what a file defines under ``word`` in capitals, such as ``TASK``; it must be of ``kind``.

    Shipped names are modules beside the one that defines ``kind``.

    Raises:
        ValueError: nothing of that name, or what is there isn't of ``kind``.
    """
    attribute, package = word.upper(), kind.__module__.rpartition(".")[0]
    if name in shipped:
        loaded = getattr(importlib.import_module(f"{package}.{name}"), attribute)
    elif name.endswith(".py"):
        loaded = _attribute(_file(Path(name), word), attribute, name, word, kind)
    elif ":" in name:
        module, attribute = name.split(":", 1)
        loaded = _attribute(_module(module, attribute, word), attribute, module, word, kind)
    else:
        raise ValueError(
            f"no {word} named {name!r}; choose one of {list(shipped)}, a file my_{word}.py, or module:{attribute}"
        )
    if not isinstance(loaded, kind):
        raise ValueError(f"{name}: {word.upper()} is a {type(loaded).__name__}, not a {package}.{kind.__name__}")
    return loaded


def _file(path: Path, word: str) -> object:
    if not path.is_file():
        raise ValueError(f"no {word} file at {str(path)!r}")
    spec = importlib.util.spec_from_file_location(f"spy_{word}_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{str(path)!r} can't be imported as Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module(module: str, attribute: str, word: str) -> object:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the module exists, and one that it imports doesn't
        raise ValueError(
            f"no module {module!r} to take the {word} {attribute!r} from; is it installed or on PYTHONPATH?"
        ) from error


def _attribute(module: object, name: str, where: str, word: str, kind: type) -> object:
    if not hasattr(module, name):
        raise ValueError(f"{where} defines no {name}; a {word} file ends with {name} = {kind.__name__}(...)")
    return getattr(module, name)
