"""The ``spyrl`` command. Sub-commands are found by entry point, so that this package imports no other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

GROUP = "spyrl.commands"
EXTRAS = {"eval": "eval", "verl": "verl"}  # by command; all others need the train extra


def commands() -> dict[str, EntryPoint]:
    """Return every installed sub-command by name."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``spyrl COMMAND ...``. Errors that a user can mend (a wrong value, a file, a download) come without a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    known = commands()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: spyrl {{{','.join(known)}}} ...\n\n`spyrl COMMAND --help` tells more.")
        return 0
    if arguments[0] not in known:
        print(f"spyrl: no command {arguments[0]!r}; choose one of {', '.join(known)}", file=sys.stderr)
        return 2
    try:
        return known[arguments[0]].load()(arguments[1:]) or 0
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(arguments[0], "train")
        print(f"spyrl {arguments[0]} needs {error.name!r}: pip install -e '.[{extra}]'", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"spyrl {arguments[0]}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"spyrl {arguments[0]}: stopped", file=sys.stderr)
        return 130
