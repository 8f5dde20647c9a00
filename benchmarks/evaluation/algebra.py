"""Equality of mathematics by math-verify: the work of the grader's worker process, which may hang, grow or die here.

Run by ``grading.py`` as a process of its own: a line of JSON in, a line of JSON out.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from fractions import Fraction
from typing import Any

from benchmarks.evaluation.answers import Kind, bare, close, number, parts, settled, spelled, unnamed

MEMORY = 4 << 30  # bytes that one answer may take; ours
MOST_PARTS = 12  # of a set or tuple; longer ones are compared as they are written


def same(kind: Kind, answer: str, gold: str) -> bool:
    """Whether an answer equals the gold one, part by part where both are lists."""
    if (told := settled(kind, answer, gold)) is not None:
        return told
    said, true = spelled(answer), spelled(gold)
    if not unnamed(bare(true))[0] and unnamed(bare(said))[0]:  # x = 5 where 5 is asked for
        said = said.split("=", 1)[-1].split(r"\in ", 1)[-1].strip()
    said_brackets, said_parts = parts(_both_signs(said))
    true_brackets, true_parts = parts(_both_signs(true))
    if max(len(said_parts), len(true_parts)) == 1:
        return _equal(kind, said_parts[0], true_parts[0])
    if len(said_parts) != len(true_parts):
        # a union of intervals, say, has no parts, and its equal may have
        return 1 in (len(said_parts), len(true_parts)) and _equal(kind, said, true)
    if len(true_parts) > MOST_PARTS:
        return False
    ordered = true_brackets not in ("", "{}")
    if ordered != (said_brackets not in ("", "{}")) and ordered:
        return False  # 2, 3 isn't (2, 3)
    if ordered:
        return said_brackets == true_brackets and all(
            same(kind, a, b) for a, b in zip(said_parts, true_parts, strict=True)
        )
    return _same_set(kind, said_parts, true_parts)


def _same_set(kind: Kind, said: list[str], true: list[str]) -> bool:
    left = list(said)
    for part in true:
        found = next((i for i, other in enumerate(left) if same(kind, other, part)), None)
        if found is None:
            return False
        del left[found]
    return True


def _both_signs(answer: str) -> str:
    r"""``1 \pm \sqrt{2}`` as the list of its two values, within a set or not."""
    if r"\pm" not in answer:
        return answer
    brackets, found = parts(answer)
    if brackets not in ("", "{}"):
        return answer
    signed = [part.replace(r"\pm", sign) for part in found for sign in (("+", "-") if r"\pm" in part else ("",))]
    return ", ".join(signed)


def _equal(kind: Kind, said: str, true: str) -> bool:
    """Equality of two expressions that aren't lists."""
    from math_verify import verify

    said_read, true_read = _read(said), _read(true)
    if not said_read or not true_read:
        return False
    if (exact := number(true)) is not None:
        value = _value(said_read[0])
        return value is not None and close(value, exact, kind)
    if verify(true_read, said_read, strict=True, allow_set_relation_comp=True, timeout_seconds=None):
        return True
    return kind == "measured" and _close_values(said_read[0], true_read[0])


def _read(answer: str) -> list[Any]:
    from math_verify import LatexExtractionConfig, parse

    return parse(
        rf"\boxed{{{answer}}}",
        extraction_config=[LatexExtractionConfig(boxed_match_priority=0)],
        parsing_timeout=None,
    )


def _value(expression: Any) -> Fraction | None:
    """The real number that an expression, or an equation's right side, is; None where it is none."""
    right = getattr(expression, "rhs", expression)
    if getattr(right, "free_symbols", True) or not hasattr(right, "evalf"):
        return None
    if getattr(right, "is_Rational", False):
        return Fraction(int(right.p), int(right.q))
    value = right.evalf(20)
    if not getattr(value, "is_real", False) or not math.isfinite(float(value)):
        return None
    return Fraction(round(float(value), 12)) if value == round(float(value)) else Fraction(float(value))


def _close_values(said: Any, true: Any) -> bool:
    values = _value(said), _value(true)
    return values[0] is not None and values[1] is not None and close(values[0], values[1], "measured")


def serve() -> None:
    """Answer requests from standard input until it closes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # parsers print; nothing of theirs may look like an answer
    logging.disable(logging.CRITICAL)
    _bound_memory()
    try:
        import math_verify  # noqa: F401 - warm before the first deadline
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), file=answers, flush=True)
        return
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        _end_after(request["seconds"])
        reply: dict[str, Any] = {"right": False}
        try:
            reply["right"] = bool(same(request["kind"], request["answer"], request["gold"]))
        except Exception as error:  # whatever a parser makes of a model's text; the answer isn't the gold one
            reply["error"] = type(error).__name__
        _end_after(0)
        print(json.dumps(reply), file=answers, flush=True)


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _end_after(seconds: float) -> None:
    """The system ends this process then, even where nobody is left to do so; 0 takes that back."""
    import signal

    if hasattr(signal, "alarm"):
        signal.alarm(math.ceil(seconds) + 1 if seconds else 0)
