"""Equality of mathematics by math-verify: the work of the grader's worker process, which may hang, grow or die here.

Run by ``grading.py`` as a process of its own: a line of JSON in, a line of JSON out.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from benchmarks.evaluation.answers import Kind, bare, close, is_unit, number, parts, results, settled, spelled, unnamed

MEMORY = 4 << 30  # bytes that one answer may take; ours
POINTS = 4  # where formulas are compared by value; ours
MOST_PARTS = 12  # of a set or tuple; longer ones are compared as they are written


def same(kind: Kind, answer: str, gold: str) -> bool:
    """Whether an answer equals the gold one, part by part where both are lists."""
    if (told := settled(kind, answer, gold)) is not None:
        return told
    said, true = spelled(answer), spelled(gold)
    if "=" not in true and (found := results(said)):
        return any(same(kind, result, gold) for result in found)
    said_name, true_name = unnamed(bare(said))[0], unnamed(bare(true))[0]
    if bool(said_name) != bool(true_name):  # x = 5 where 5 is asked for, or the other way round
        said, true = _value_named(said, said_name), _value_named(true, true_name)
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
    if ordered:  # 2, 3 isn't (2, 3)
        return said_brackets == true_brackets and all(
            same(kind, a, b) for a, b in zip(said_parts, true_parts, strict=True)
        )
    return _same_set(kind, said_parts, true_parts)


def _value_named(answer: str, name: str) -> str:
    return re.split(r"=|\\in(?![a-z])", answer, maxsplit=1)[1].strip() if name else answer


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

    if "=" in true and "=" not in said:
        return False  # an equation is asked for
    if re.search(r"(?<![a-zA-Z])i(?![a-zA-Z])", true):
        said = _RUN_OF_LETTERS.sub(lambda found: " " + " ".join(found[0]), said)  # 2it is a product
    said_read, true_read = _read(said), _read(true)
    if not said_read or not true_read:
        return False
    if (exact := number(true)) is not None:
        if (
            kind == "measured"
            and (measured := _WITH_UNIT.fullmatch(said))
            and (told := number(measured[1])) is not None
        ):
            return close(told, exact, kind)
        value = _value(said_read[0])
        return value is not None and close(value, exact, kind)
    if verify(true_read, said_read, strict=True, allow_set_relation_comp=True, timeout_seconds=None):
        return True
    return _same_values(kind, said_read[0], true_read[0])


_WITH_UNIT = re.compile(r"(.*[\d}])\s+[a-zA-Z]")  # 0.065 m, where a number is asked for
_RUN_OF_LETTERS = re.compile(r"(?<![\\a-zA-Z])(?<!_\{)[a-zA-Z]{2,3}(?![a-zA-Z(])")
# In this order. A derivative is a symbol of its own, whichever way it is written.
_FOR_THE_PARSER: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\\(?:text|mathrm|textrm|mbox|rm)\s*\{([^{}]*)\}(?=\s*\})"), r"\1"),  # within a subscript
    (
        re.compile(
            r"(?:(?:(?:\\cdot|/)\s*)?\\(?:text|mathrm|textrm|mbox)\s*\{(?:[^{}]|\{[^{}]*\})*\}(?:\^\{?-?\d\}?)?\s*)+$"
        ),
        lambda found: "" if is_unit(found[0]) else found[0],
    ),
    (re.compile(r"\\frac\s*\{\s*d\s*([a-zA-Z])\s*\}\s*\{\s*d\s*t\s*\}"), r"\1_{1}"),
    (re.compile(r"\\dot\s*\{\s*([a-zA-Z])\s*\}(?!\s*_)"), r"\1_{1}"),
    (re.compile(r"\b([a-zA-Z])(?:\^\{?\s*\\prime\s*\}?|')(?!')"), r"\1_{1}"),
]


def _read(answer: str) -> list[Any]:
    from math_verify import LatexExtractionConfig, parse

    for pattern, spelling in _FOR_THE_PARSER:
        answer = pattern.sub(spelling, answer)
    reading = LatexExtractionConfig(boxed_match_priority=0)
    # Units stay: it would take a last m or c for one. Ours are known by their style.
    reading = replace(reading, normalization_config=replace(reading.normalization_config, units=False))
    return parse(
        rf"\boxed{{{answer}}}",
        extraction_config=[reading],
        parsing_timeout=None,
    )


def _value(expression: Any) -> Fraction | None:
    """The real number that an expression, or an equation's right side, is; None where it is something else."""
    right = getattr(expression, "rhs", expression)
    if not hasattr(right, "evalf") or getattr(right, "free_symbols", True):
        return None
    if getattr(right, "is_Rational", False):
        return Fraction(int(right.p), int(right.q))
    value = right.evalf(30)
    if not getattr(value, "is_real", False) or not math.isfinite(float(value)):
        return None
    exact = Fraction(str(value))
    whole = Fraction(round(exact))
    return whole if abs(exact - whole) < Fraction(1, 10**20) * (abs(whole) + 1) else exact


def _complex(expression: Any, at: Mapping[Any, float]) -> complex | None:
    try:
        value = complex(expression.evalf(20, subs=dict(at)))
    except (AttributeError, TypeError):  # sets have no value, functions without a rule none that is a number
        return None
    return value if math.isfinite(abs(value)) else None


def _same_values(kind: Kind, said: Any, true: Any) -> bool:
    """Equality by value: of two real numbers; of measured formulas, at points where all symbols are positive."""
    symbols = sorted(getattr(true, "free_symbols", ()), key=str)
    if hasattr(true, "rhs") or hasattr(said, "rhs") or set(symbols) != set(getattr(said, "free_symbols", ())):
        return False
    if not symbols:
        values = _value(said), _value(true)
        return values[0] is not None and values[1] is not None and close(values[0], values[1], kind)
    if kind != "measured":
        return False  # x may be negative: it isn't the root of its square
    for point in range(POINTS):
        at = {symbol: 0.3 + (0.37 * point + 0.61 * i) % 1.7 for i, symbol in enumerate(symbols)}
        here, there = _complex(said, at), _complex(true, at)
        if here is None or there is None or abs(here - there) > 1e-6 * abs(there):
            return False
    return True


def serve() -> None:
    """Answer requests from standard input until it closes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # parsers print; nothing of theirs may look like an answer
    logging.disable(logging.CRITICAL)
    _bound_memory()
    try:
        same("math", "x+x", "2x")  # imports and grammars are loaded before the first deadline
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
