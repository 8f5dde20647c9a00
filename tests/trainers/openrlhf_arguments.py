"""What OpenRLHF's own command line makes of its flags, every check of its passed."""

from __future__ import annotations

import runpy
import sys
from typing import Any

import openrlhf.utils
import pytest
import ray


class _ReadError(Exception):
    """Carries the arguments out, at the first thing that training does with them."""


def arguments(*flags: str) -> Any:
    """The arguments as the trainer gets them, nested by the dots in their names.

    Raises:
        SystemExit: OpenRLHF's parser refuses a flag.
        AssertionError: OpenRLHF refuses a combination.
    """

    def stop(args: Any) -> None:
        raise _ReadError(args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["train_ppo_ray", *flags])
        patch.setattr(ray, "is_initialized", lambda: True)  # training would start a cluster first
        patch.setattr(openrlhf.utils, "get_strategy", stop)
        patch.delitem(sys.modules, "openrlhf.cli.train_ppo_ray", raising=False)
        with pytest.raises(_ReadError) as read:
            runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
    return read.value.args[0]
