"""Final answers as text: where they stand in a reply, and one spelling for what is written in several ways. Linear time."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

from spy_env import ballot
from spy_env.ballot import after_thinking

_BOX = ballot.box_pattern(nesting=24)  # an answer in mathematics nests deeper than a vote; we chose the bound


def last_box(text: str) -> str | None:
    """What the last complete, non-empty ``\\boxed{}`` after any thinking holds; None where there is no such box."""
    return ballot.last_box(text, _BOX)


_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,60})"
_DECIMAL = rf"{_DIGITS}?(?:(?<=\d)\.\d{{0,60}}|\.\d{{1,60}})?"
_UNIT = (
    r"(?P<unit>(?:\s*(?:(?:\\cdot|/)\s*)?\\(?:text|mathrm|mbox|textrm|rm|operatorname)\s*\{(?:[^{}]|\{[^{}]*\})*\}(?:\^\{?-?\d\}?)?"
    r"|\s+(?:[a-zA-Z]{2,}|[a-zA-Z](?=\s*/))|\s*/\s*[a-zA-Z]+|(?<=[a-z}])\^\{?-?\d\}?){0,8})"
)
_POWER = r"(?:\s*(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*(?:\{\s*([+-]?\d{1,4})\s*\}|([+-]?\d{1,4}))|[eE]([+-]?\d{1,4}))?"
_NUMBER = re.compile(rf"\s*([+-]?)\s*({_DECIMAL}){_POWER}{_UNIT}\s*\.?")
_FRACTION = re.compile(
    rf"\s*([+-]?)\s*(\d{{1,30}}(?=\s*\\frac|\s+\d))?\s*(?:\\frac\s*\{{\s*([+-]?\d{{1,60}})\s*\}}\s*\{{\s*(\d{{1,60}})\s*\}}"
    rf"|(\d{{1,60}})\s*/\s*(\d{{1,60}})){_UNIT}\s*\.?"
)
_LARGEST_EXPONENT = 400  # past what any measurement is; keeps numbers small


_SCALES = {
    "dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
# Words that make another number of the one before them.
_NO_UNITS = {
    "plus", "minus", "times", "over", "divided", "multiplied", "sqrt", "root", "log", "ln", "lg", "exp", "sin",
    "cos", "tan", "cot", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "pi", "inf", "infty", "infinity",
    "mod", "modulo", "choose", "factorial", "raised", "or", "halves", "thirds", "tenths", "hundredths",
    "thousandths",
}  # fmt: skip
# Of one and two letters only these: others are products of symbols.
_SHORT_UNITS = {
    "m", "s", "g", "h", "d", "l", "t", "K", "L", "N", "J", "W", "V", "A", "C", "T", "F", "H", "S", "M", "G", "cm",
    "mm", "km", "nm", "fm", "pm", "kg", "mg", "ng", "lb", "oz", "ft", "in", "yd", "mi", "hr", "ms", "ns", "ps",
    "ml", "mL", "dL", "kL", "cc", "eV", "kW", "MW", "GW", "Hz", "kJ", "MJ", "kN", "kV", "mV", "mA", "Pa", "pc",
    "AU", "au", "am", "kB", "MB", "GB", "TB", "dB", "of", "by", "at", "to", "on", "an", "as", "is",
}  # fmt: skip
_NO_WORDS = re.compile(r"\\(?:(?:text|math)[a-z]*|mbox|rm|operatorname|cdot|times|mu|Omega|AA|circ)(?![a-zA-Z])")
_LONE_DIGIT = re.compile(r"(?<![\w^])(?<!\^[{-])(?<!\^\{-)(?<![a-zA-Z]-)\d")


def is_unit(text: str) -> bool:
    """Whether what stands behind a number is a unit, or words that leave the number as it is."""
    return _scale(text) == 1


def _scale(behind: str) -> int:
    """What the words behind a number multiply it by; 0 where they make something else of it."""
    scale, found = 1, re.findall("[a-zA-Z]+", _NO_WORDS.sub(" ", behind))
    while found and found[0].casefold() in _SCALES:
        scale *= _SCALES[found.pop(0).casefold()]
    if _LONE_DIGIT.search(behind) or found[:1] in (["squared"], ["cubed"]):  # inches squared are a unit
        return 0
    return scale if all(map(_is_unit_word, found)) else 0


def _is_unit_word(word: str) -> bool:
    if len(word) < 3:
        return word in _SHORT_UNITS
    return word.casefold() not in _NO_UNITS | _SCALES.keys() and not set(word) <= set("abcxyz")


def number(answer: str) -> Fraction | None:
    """The number that a spelled answer is, exactly, "18 million" too; a unit behind it is left out.

    None where it is something else.
    """
    if len(answer) > 300:
        return None
    if found := _NUMBER.fullmatch(answer):
        sign, digits, *powers, unit = found.groups()
        exponent = int(next((power for power in powers if power), "0"))
        digits = digits.replace(",", "")
        scale = _scale(unit)
        if not any(character.isdigit() for character in digits) or abs(exponent) > _LARGEST_EXPONENT or not scale:
            return None
        return (-1 if sign == "-" else 1) * Fraction(digits) * Fraction(10) ** exponent * scale
    if found := _FRACTION.fullmatch(answer):
        sign, whole, top, bottom, first, second, unit = found.groups()
        if not int(bottom or second) or not (scale := _scale(unit)):
            return None
        value = (int(whole or 0) + Fraction(int(top or first), int(bottom or second))) * scale
        return -value if sign == "-" else value
    return None


Kind = Literal["number", "math", "measured", "choice"]
"""What a data set's gold answers are: integers, mathematics, results of measurements and formulas, or letters."""
LONGEST_ANSWER = 2000  # characters; ours. The longest gold answer of the sets here has 140
TOLERANCE = {  # relative, of numbers that aren't integers; of all numbers where they are measured
    "number": Fraction(0),
    "math": Fraction(1, 10**6),  # a fraction written to six digits, as math-verify has it
    "measured": Fraction(1, 100),  # ours: courses round constants and results to two or three digits
}

# A letter by itself: "the answer is a photon" names none.
_THE_ANSWER_IS = re.compile(r"(?i:answer is):?\s{0,3}\*{0,2}\(?([A-P])(?=[).,:;*\r\n]|$)")
_LETTER = re.compile(r"[({\s]*([A-Pa-p])\s*(?:(?:[)}.:,]|(?<=\s)[-–—]{1,3}\s).*)?", re.DOTALL)
# Several letters name no one option. "A. B" may be a letter and its text.
_SEVERAL = re.compile(
    r"[({\s]*+[A-P][)}\s]*+(?:(?:[,;/&–—-]|and\b|or\b)[,;/&({\s–—-]*+(?:(?:and|or)\b[({\s]*+)?[A-P][)}.\s]*+)+"
)
_ANNOUNCED = re.compile(
    r"\b(?:(?:the|my|correct|right|final|best)\s+){0,3}(?:option|answer|choice)s?\b\s*(?:(?:is|are)\b)?\s*[:=]?\s*",
    re.IGNORECASE,
)


def final_answer(reply: str, kind: Kind) -> str | None:
    """What a reply gives as its answer: its last box; None where there is none.

    A choice may also be said in a sentence, "the answer is (C)", which MMLU-Pro's own protocol reads; the last counts.
    """
    box = last_box(reply)
    if kind != "choice":
        return box
    if box is not None and (letter := _LETTER.fullmatch(plain := _ANNOUNCED.sub("", _plain_text(box)))):
        return None if _SEVERAL.fullmatch(plain) else letter[1].upper()
    said = _THE_ANSWER_IS.findall(after_thinking(reply)) if box is None else []
    return said[-1].upper() if said else None


_STYLED = re.compile(
    r"\\(?:text|textbf|textit|textrm|texttt|mathrm|mathbf|mathit|operatorname|mbox|hbox|rm)\s*\{([^{}]*)\}"
)


_FULL_WIDTH = {0xFF01 + i: chr(0x21 + i) for i in range(94)}


def _plain_text(text: str) -> str:
    return _STYLED.sub(r" \1 ", text.translate(_FULL_WIDTH)).replace("$", " ").replace("\\", " ").strip()


_CHARACTERS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "÷": "/", "π": r"\pi ", "∞": r"\infty ",
        "°": r"^\circ ", "√": r"\sqrt ", "≤": r"\le ", "≥": r"\ge ", "∪": r"\cup ", "∈": r"\in ", "±": r"\pm ",
        "²": "^2 ", "³": "^3 ", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "’": "'", "θ": r"\theta ", "α": r"\alpha ",
        "$": " ", "~": " ", "\t": " ", "\n": " ", "\r": " ",
        "≈": r"\approx ",
    }
    | {chr(code): plain for code, plain in _FULL_WIDTH.items()}
)  # fmt: skip
# In this order: each reads what those before it wrote.
_SPELLINGS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r",\s*\\!\s*|\{,\}|(?<=\d)\\,(?=\d{3}(?!\d))"), ","),  # 10,\!080, 10{,}080 and 10\,080
    (re.compile(r"(?<!\\)\\(?:[!;,:> ]|quad(?![a-z])|qquad(?![a-z]))"), " "),
    (re.compile(r"(?<!\\)\\[()\[\]]"), " "),  # mathematics between \( and \)
    (re.compile(r"\\(?:displaystyle|textstyle|left|right|limits|[bB]igg?[lr]?)(?![a-zA-Z])\.?"), ""),
    (re.compile(r"\\[dtc]frac(?![a-z])"), r"\\frac"),
    (re.compile(r"\\(?:leq|geq)(?![a-z])"), lambda found: found[0][:3]),
    (re.compile(r"\\(?:\$|%)|%|€|£"), ""),
    (re.compile(r"\^\s*(?:\{\s*\\(?:circ|degree)\s*\}|\\(?:circ|degree)(?![a-z]))|\\degree(?![a-z])"), ""),
    (re.compile(r"\\begin\{[bBvV]?matrix\}"), r"\\begin{pmatrix}"),
    (re.compile(r"\\end\{[bBvV]?matrix\}"), r"\\end{pmatrix}"),
    (re.compile(r"\\(?:frac|sqrt)(?=\s*\d)\s*(\d)"), lambda found: found[0].rstrip()[:-1].rstrip() + "{" + found[1] + "}"),
    (re.compile(r"(\\frac\s*\{[^{}]*\})\s*(\d)"), r"\1{\2}"),
    (re.compile(r"\bnp\.([a-z]+)"), r"\\\1 "),
    (re.compile(r"(?<![a-zA-Z\\])pi(?![a-zA-Z])"), r"\\pi "),
    (re.compile(r"\\exp\s*\{"), "e^{"),
    (re.compile(r"(?<=\d)\.(?=/)"), ""),  # -1./3
    (re.compile(r"\s+(?:and|or)\s+|\\(?:text|mbox)\s*\{\s*,?\s*(?:and|or)\s*\}"), ","),
    (re.compile(r",\s*,"), ","),
    (re.compile(r"^\s*(?:=|\\(?:approx|simeq|sim)(?![a-zA-Z]))"), ""),
]  # fmt: skip
_ONE_IN_BRACES = re.compile(r"([_^])\{(\w)\}")
_SPACES = re.compile(r"\s+")
_NAMED = re.compile(r"([a-zA-Z]|\\[a-zA-Z]+)(?:_(?:\w|\{\w*\}))?(?:\([a-zA-Z]\))?(?:=|\\in(?![a-z]))([^=]+)")
_END = " .,;:"


def spelled(answer: str) -> str:
    """An answer in one spelling: without spacing, outer braces, currency, per cent and degree signs."""
    text = answer.translate(_CHARACTERS)
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = _SPACES.sub(" ", text).strip(_END)
    return text[1:-1].strip(_END) if text.startswith("{") and _encloses(text) else text


def bare(answer: str) -> str:
    """A spelled answer without styles of text, spaces and braces that hold one character: equal strings are equal answers."""
    text = _SPACES.sub("", _STYLED.sub(r"\1", answer))
    text = _ONE_IN_BRACES.sub(r"\1\2", text)
    if (letter := re.fullmatch(r"\(([A-Z])\)", text)) is not None:
        return letter[1]
    return text.strip(_END)


def unnamed(answer: str) -> tuple[str, str]:
    """A bare answer's name and value: ``x=5`` is ``("x", "5")``, ``5`` is ``("", "5")``."""
    named = _NAMED.fullmatch(answer)
    return (named[1], named[2]) if named else ("", answer)


_WORDS = re.compile(r"[A-Za-z][A-Za-z\s'-]*[A-Za-z]")
_BASE = re.compile(r"([0-9A-F]+)_\{?\d+\}?")


def words(answer: str) -> str | None:
    """An answer in words, such as ``\\text{Evelyn}``, without case; None where it is none."""
    plain = _STYLED.sub(r" \1 ", answer).strip(_END)
    if plain == answer and " " not in plain and not plain.islower() and not plain.istitle():
        return None  # MR, SRMC: products of symbols as much as words
    return "".join(plain.casefold().split()) if _WORDS.fullmatch(plain) else None


def settled(kind: Kind, answer: str, gold: str) -> bool | None:
    """Whether an answer is the gold one, where spelling, words and plain numbers tell; None where it takes algebra."""
    if kind == "choice":
        return answer == gold.strip()
    said, true = spelled(answer), spelled(gold)
    if (said_bare := bare(said)) == (true_bare := bare(true)) or unnamed(said_bare)[1] == true_bare:
        return True
    name, value = unnamed(true_bare)
    if name and value == said_bare:
        return True
    if (base := _BASE.fullmatch(true_bare)) is not None:
        return said_bare == base[1]
    if (true_word := words(true)) is not None and (said_word := words(said)) is not None:
        return said_word == true_word
    said_number, true_number = number(said), number(true)
    if said_number is None or true_number is None:
        return None
    return close(said_number, true_number, kind)


def close(said: Fraction, true: Fraction, kind: Kind) -> bool:
    """Whether two numbers are the same, within what a kind's gold answers are exact to."""
    if kind != "measured" and true.denominator == 1:
        return said == true
    return abs(said - true) <= TOLERANCE[kind] * abs(true)


_OPEN, _CLOSED = {"(": ")", "[": "]", "{": "}"}, ")]}"
_RELATION = re.compile(r"=|\\(?:approx|simeq)(?![a-zA-Z])|[(\[{)\]}]")
_NO_CHAIN = re.compile(r"[,&<>]|\\\\|\\(?:le|ge|ne|neq|lt|gt|in|pm|equiv)(?![a-zA-Z])")


def results(answer: str) -> list[str]:
    """What a chain of equations comes to: its last member, and the one before where the last is its approximation.

    Empty where a spelled answer is no such chain: in lists and inequalities, ``=`` is part of each.
    """
    if _NO_CHAIN.search(answer):
        return []
    members, relations, depth, begin = [], [], 0, 0
    for found in _RELATION.finditer(answer):
        if found[0] in "([{)]}":
            depth += 1 if found[0] in _OPEN else -1
        elif depth == 0:
            members.append(answer[begin : found.start()].strip())
            relations.append(found[0])
            begin = found.end()
    members.append(answer[begin:].strip())
    if not relations or not all(members):
        return []
    return members[-1:] if relations[-1] == "=" else members[-2:]


def parts(answer: str) -> tuple[str, list[str]]:
    """A spelled answer's outer brackets and what the commas within them part; ``{}`` for a set, `` `` for a bare list.

    ``(2, 3]`` is ``("(]", ["2", "3"])``, ``1,-2`` is ``("", ["1", "-2"])``; what isn't a list is itself, without brackets.
    """
    text = answer.strip()
    brackets = ""
    if text.startswith(r"\{") and text.endswith(r"\}"):
        brackets, text = "{}", text[2:-2]
    elif len(text) > 1 and text[0] in "([" and text[-1] in ")]" and _encloses(text):
        brackets, text = text[0] + text[-1], text[1:-1]
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", text) and not brackets:
        return "", [text]
    pieces, depth, begin = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in _OPEN) - (character in _CLOSED)
        if character == "," and depth == 0:
            pieces.append(text[begin:i].strip())
            begin = i + 1
    pieces.append(text[begin:].strip())
    return (brackets, pieces) if len(pieces) > 1 or brackets == "{}" else ("", [answer.strip()])


def _encloses(text: str) -> bool:
    """Whether the first bracket is closed by the last character."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return i == len(text) - 1
    return False
