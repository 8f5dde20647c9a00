"""A Gymnasium space for free text. ``gymnasium.spaces.Text`` lists its characters, which is slow for all of Unicode."""

from __future__ import annotations

from typing import Any, NoReturn

from gymnasium.spaces import Text, utils

SAMPLE_CHARACTERS = "abcdefghijklmnopqrstuvwxyz \\{}1234567890"


class FreeText(Text):
    """Any ``str`` of at most ``max_length`` characters that UTF-8 can encode."""

    def __init__(self, max_length: int, seed: int | None = None) -> None:
        super().__init__(max_length=max_length, min_length=0, charset=SAMPLE_CHARACTERS, seed=seed)

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is text of allowed length."""
        if not isinstance(x, str) or len(x) > self.max_length:
            return False
        return x.isascii() or not any("\ud800" <= character <= "\udfff" for character in x)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Sample up to 40 characters from the space's seed.

        Raises:
            ValueError: a mask or probability is given.
        """
        if mask is not None or probability is not None:
            raise ValueError("FreeText can't be sampled with a mask or a probability; it has no list of characters")
        length = int(self.np_random.integers(0, min(40, self.max_length) + 1))
        return "".join(SAMPLE_CHARACTERS[i] for i in self.np_random.integers(0, len(SAMPLE_CHARACTERS), length))

    @property
    def is_np_flattenable(self) -> bool:
        """Free text has no array form."""
        return False

    def __eq__(self, other: object) -> bool:
        """Spaces of one length are equal."""
        return isinstance(other, FreeText) and self.max_length == other.max_length

    def __hash__(self) -> int:
        return hash((FreeText, self.max_length))

    def __repr__(self) -> str:
        return f"FreeText({self.max_length})"


def refuse_to_flatten(space: FreeText, *_: Any) -> NoReturn:
    """Stand in for ``gymnasium.spaces.utils``, which would number the characters of ``Text`` by its list.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{space} can't be flattened: free text has no array form; tokenize the prompt instead")


for _operation in (utils.flatdim, utils.flatten, utils.flatten_space, utils.unflatten):
    _operation.register(FreeText, refuse_to_flatten)
