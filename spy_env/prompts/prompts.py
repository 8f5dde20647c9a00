"""The form of a set of prompts, and how a name, a file or ``module:PROMPTS`` becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from spy_env.named import load_named

SHIPPED = ("v1", "lean")
_FIELDS = {  # by template: what it may hold
    "header": ("players", "voters", "described", "share"),
    "civilian": (),
    "spy": ("described", "share"),
    "perform": ("task", "brief", "marker"),
    "detect": ("task", "brief", "detect", "ballot", "players"),
}


@dataclass(frozen=True, slots=True)
class Prompts:
    """Templates of the prompts. Both stages begin with ``header`` and the document.

    A performing prompt goes on with its role's sentences, ``civilian`` or ``spy``, and ``perform``; a vote prompt with
    ``detect``. ``{task}`` is the task as it describes itself, ``{brief}`` its one sentence, ``{detect}`` what it says to
    look for, ``{described}`` and ``{share}`` how the spy's copy is masked.

    Raises:
        ValueError: a template has a field that it can't have.
    """

    name: str
    header: str
    civilian: str
    spy: str
    perform: str
    detect: str

    def __post_init__(self) -> None:
        for template, fields in _FIELDS.items():
            try:
                getattr(self, template).format(**dict.fromkeys(fields, ""))
            except (KeyError, IndexError, ValueError) as error:
                raise ValueError(
                    f"prompts {self.name!r}: {template} can't be filled in ({error!r}); it may use "
                    f"{[f'{{{field}}}' for field in fields]}, and braces of its own are written {{{{ and }}}}"
                ) from error
        if "{ballot}" not in self.detect:
            raise ValueError(f"prompts {self.name!r}: detect has no {{ballot}}; voters must see the results")


def prompts_names() -> tuple[str, ...]:
    """Return the names of the sets of prompts that come with the package."""
    return SHIPPED


@cache
def load_prompts(name: str) -> Prompts:
    """Load shipped prompts by name, ``path/to/my_prompts.py``, or ``module:ATTRIBUTE``.

    Raises:
        ValueError: nothing of that name, or what is there defines no ``Prompts``.
    """
    return load_named(name, Prompts, "prompts", SHIPPED)
