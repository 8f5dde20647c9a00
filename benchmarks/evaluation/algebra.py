"""Compare answers by math-verify: the work of the grader's worker process, which may hang, grow or die over it.

``grading.py`` runs ``serve`` in a process of its own: a line of JSON in, a line of JSON out.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from benchmarks.evaluation.answers import (
    Kind,
    bare,
    close,
    multiplier,
    name_and_value,
    number,
    parts,
    results,
    settled,
    spelled,
)

MEMORY = 4 << 30  # bytes that one answer may take; ours
POINTS = 4  # at which formulas are compared by value; ours
MOST_PARTS = 12  # of a set or tuple; longer ones are compared as they are written


def same(kind: Kind, answer: str, gold: str) -> bool:
    """Return whether an answer equals the gold one, part by part where both are lists."""
    if (right := settled(kind, answer, gold)) is not None:
        return right
    answer, true = spelled(answer), spelled(gold)
    if "=" not in true and (members := results(answer)):
        return any(same(kind, member, gold) for member in members)
    answer_named, true_named = bool(name_and_value(bare(answer))[0]), bool(name_and_value(bare(true))[0])
    if answer_named != true_named:  # x = 5 where 5 is asked for, or the other way round
        answer = _value_of(answer) if answer_named else answer
        true = _value_of(true) if true_named else true
    answer_brackets, answer_parts = parts(_both_signs(answer))
    true_brackets, true_parts = parts(_both_signs(true))
    if max(len(answer_parts), len(true_parts)) == 1:
        return _equal(kind, answer_parts[0], true_parts[0])
    if len(answer_parts) != len(true_parts):
        # A union of intervals, say, has no parts, and its equal may have.
        return 1 in (len(answer_parts), len(true_parts)) and _equal(kind, answer, true)
    if len(true_parts) > MOST_PARTS:
        return False
    if true_brackets in ("", "{}"):
        return _same_set(kind, answer_parts, true_parts)
    if answer_brackets != true_brackets:  # 2, 3 isn't (2, 3)
        return False
    return all(same(kind, a, b) for a, b in zip(answer_parts, true_parts, strict=True))


def _value_of(named: str) -> str:
    return re.split(r"=|\\in(?![a-z])", named, maxsplit=1)[1].strip()


def _same_set(kind: Kind, answers: list[str], golds: list[str]) -> bool:
    remaining = list(answers)
    for gold in golds:
        equal = next((answer for answer in remaining if same(kind, answer, gold)), None)
        if equal is None:
            return False
        remaining.remove(equal)
    return True


def _both_signs(answer: str) -> str:
    r"""Write ``1 \pm \sqrt{2}`` as the list of its two values, within a set or not."""
    brackets, members = parts(answer)
    if r"\pm" not in answer or brackets not in ("", "{}"):
        return answer
    return ", ".join(
        member.replace(r"\pm", sign) for member in members for sign in (("+", "-") if r"\pm" in member else ("",))
    )


def _equal(kind: Kind, answer: str, true: str) -> bool:
    """Compare two expressions that aren't lists."""
    from math_verify import verify

    if "=" in true and "=" not in answer:
        return False  # an equation is asked for
    if re.search(r"(?<![a-zA-Z])i(?![a-zA-Z])", true):
        answer = _RUN_OF_LETTERS.sub(lambda run: " " + " ".join(run[0]), answer)  # 2it is a product
    read_answer, read_true = _read(answer), _read(true)
    if not read_answer or not read_true:
        return False
    if (exact := number(true)) is not None:
        with_unit = _WITH_UNIT.fullmatch(answer) if kind == "measured" else None
        value = number(with_unit[1]) if with_unit else None
        value = _value(read_answer[0]) if value is None else value
        return value is not None and close(value, exact, kind)
    if verify(read_true, read_answer, strict=True, allow_set_relation_comp=True, timeout_seconds=None):
        return True
    return _same_values(kind, read_answer[0], read_true[0])


_WITH_UNIT = re.compile(r"(.*[\d}])\s+[a-zA-Z]")  # 0.065 m, where a number is asked for
_RUN_OF_LETTERS = re.compile(r"(?<![\\a-zA-Z])(?<!_\{)[a-zA-Z]{2,3}(?![a-zA-Z(])")
# In this order. A derivative is a symbol of its own, whichever way it is written.
_FOR_THE_PARSER: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\\(?:text|mathrm|textrm|mbox|rm)\s*\{([^{}]*)\}(?=\s*\})"), r"\1"),  # within a subscript
    (
        re.compile(
            r"(?:(?:(?:\\cdot|/)\s*)?\\(?:text|mathrm|textrm|mbox)\s*\{(?:[^{}]|\{[^{}]*\})*\}(?:\^\{?-?\d\}?)?\s*)+$"
        ),
        lambda unit: "" if multiplier(unit[0]) == 1 else unit[0],
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
    # The parser leaves units in: it would take a last m or c for one. Ours are recognised by their style.
    reading = replace(reading, normalization_config=replace(reading.normalization_config, units=False))
    return parse(rf"\boxed{{{answer}}}", extraction_config=[reading], parsing_timeout=None)


def _value(expression: Any) -> Fraction | None:
    """Return the real number that an expression, or an equation's right side, is, or None."""
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


def _same_values(kind: Kind, answer: Any, true: Any) -> bool:
    """Compare by value: two real numbers, or measured formulas at points where all symbols are positive."""
    symbols = sorted(getattr(true, "free_symbols", ()), key=str)
    if hasattr(true, "rhs") or hasattr(answer, "rhs") or set(symbols) != set(getattr(answer, "free_symbols", ())):
        return False
    if not symbols:
        answer_value, true_value = _value(answer), _value(true)
        return answer_value is not None and true_value is not None and close(answer_value, true_value, kind)
    if kind != "measured":
        return False  # x may be negative: it isn't the root of its square
    for point in range(POINTS):
        at = {symbol: 0.3 + (0.37 * point + 0.61 * i) % 1.7 for i, symbol in enumerate(symbols)}
        here, there = _complex(answer, at), _complex(true, at)
        if here is None or there is None or abs(here - there) > 1e-6 * abs(there):
            return False
    return True


def _complex(expression: Any, at: dict[Any, float]) -> complex | None:
    try:
        value = complex(expression.evalf(20, subs=at))
    except (AttributeError, TypeError):  # sets have no value, and functions without a rule no number
        return None
    return value if math.isfinite(abs(value)) else None


def serve() -> None:
    """Answer requests from standard input until it closes."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # parsers print; nothing of theirs may look like a reply
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        same("math", "x+x", "2x")  # imports and grammars are loaded before the first deadline
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), file=replies, flush=True)
        return
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        signal.alarm(math.ceil(request["seconds"]) + 1)  # ends this process even where nobody is left to kill it
        try:
            right = bool(same(request["kind"], request["answer"], request["gold"]))
        except Exception:  # whatever a parser makes of a model's text, the answer isn't the gold one
            right = False
        signal.alarm(0)
        print(json.dumps({"right": right}), file=replies, flush=True)
