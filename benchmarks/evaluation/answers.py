"""Final answers as text: find them in a reply, spell them in one way, compare them without algebra. In linear time."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from typing import Literal

from spy_env import ballot
from spy_env.ballot import after_thinking

Kind = Literal["number", "math", "measured", "choice"]
"""The kind of a data set's gold answers: integers, mathematics, results of measurements and formulas, or letters."""

# An answer in a reply.

_BOX = ballot.box_pattern(nesting=24)  # an answer in mathematics nests deeper than a vote; we chose the bound
_FULL_WIDTH = {0xFF01 + i: chr(0x21 + i) for i in range(94)}
_STYLED = re.compile(
    r"\\(?:text|textbf|textit|textrm|texttt|mathrm|mathbf|mathit|operatorname|mbox|hbox|rm)\s*\{([^{}]*)\}"
)
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


def last_box(text: str) -> str | None:
    """Return the content of the last complete, non-empty ``\\boxed{}`` after any thinking, or None."""
    return ballot.last_box(text, _BOX)


def final_answer(reply: str, kind: Kind) -> str | None:
    """Return the content of a reply's last box, or None.

    Of a choice it is the letter, which may also stand in a sentence, "the answer is (C)", as in MMLU-Pro's own protocol;
    the last one counts.
    """
    box = last_box(reply)
    if kind != "choice":
        return box
    if box is None:
        letters: list[str] = _THE_ANSWER_IS.findall(after_thinking(reply))
        return letters[-1] if letters else None
    plain = _STYLED.sub(r" \1 ", box.translate(_FULL_WIDTH)).replace("$", " ").replace("\\", " ").strip()
    text = _ANNOUNCED.sub("", plain)
    letter = _LETTER.fullmatch(text)
    return letter[1].upper() if letter and not _SEVERAL.fullmatch(text) else None


# One spelling.

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
_WORDS = re.compile(r"[A-Za-z][A-Za-z\s'-]*[A-Za-z]")


def spelled(answer: str) -> str:
    """Spell an answer in one way: without spacing, outer braces, currency, per cent and degree signs."""
    text = answer.translate(_CHARACTERS)
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = _SPACES.sub(" ", text).strip(_END)
    return text[1:-1].strip(_END) if text.startswith("{") and _encloses(text) else text


def bare(answer: str) -> str:
    """Strip a spelled answer of text styles, spaces and braces around one character: equal strings are equal answers."""
    text = _SPACES.sub("", _STYLED.sub(r"\1", answer))
    text = _ONE_IN_BRACES.sub(r"\1\2", text)
    letter = re.fullmatch(r"\(([A-Z])\)", text)
    return letter[1] if letter else text.strip(_END)


def name_and_value(answer: str) -> tuple[str, str]:
    """Split a bare answer: ``x=5`` is ``("x", "5")``, and ``5`` is ``("", "5")``."""
    named = _NAMED.fullmatch(answer)
    return (named[1], named[2]) if named else ("", answer)


def words(answer: str) -> str | None:
    """Return a spelled answer in words, such as ``\\text{Evelyn}``, in lower case without spaces; else None."""
    plain = _STYLED.sub(r" \1 ", answer).strip(_END)
    if plain == answer and " " not in plain and not plain.islower() and not plain.istitle():
        return None  # MR, SRMC: products of symbols as much as words
    return "".join(plain.casefold().split()) if _WORDS.fullmatch(plain) else None


# Numbers, with a unit or words of scale behind them.

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,60})"
_DECIMAL = rf"{_DIGITS}?(?:(?<=\d)\.\d{{0,60}}|\.\d{{1,60}})?"
_UNIT = (
    r"(?P<unit>(?:\s*(?:(?:\\cdot|/)\s*)?\\(?:text|mathrm|mbox|textrm|rm|operatorname)\s*\{(?:[^{}]|\{[^{}]*\})*\}(?:\^\{?-?\d\}?)?"
    r"|\s+(?:[a-zA-Z]{2,}|[a-zA-Z](?=\s*/))|\s*/\s*[a-zA-Z]+|(?<=[a-z}])\^\{?-?\d\}?){0,8})"
)
_POWER = (
    r"(?:\s*(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*(?:\{\s*(?P<in_braces>[+-]?\d{1,4})\s*\}|(?P<in_the_open>[+-]?\d{1,4}))"
    r"|[eE](?P<after_e>[+-]?\d{1,4}))?"
)
_NUMBER = re.compile(rf"\s*(?P<sign>[+-]?)\s*(?P<digits>{_DECIMAL}){_POWER}{_UNIT}\s*\.?")
_FRACTION = re.compile(
    rf"\s*(?P<sign>[+-]?)\s*(?P<whole>\d{{1,30}}(?=\s*\\frac|\s+\d))?\s*"
    rf"(?:\\frac\s*\{{\s*(?P<top>[+-]?\d{{1,60}})\s*\}}\s*\{{\s*(?P<bottom>\d{{1,60}})\s*\}}"
    rf"|(?P<before>\d{{1,60}})\s*/\s*(?P<after>\d{{1,60}})){_UNIT}\s*\.?"
)
_LONGEST_NUMBER = 300  # characters; ours
_LARGEST_EXPONENT = 400  # past that of any measurement; keeps numbers small
_SCALES = {
    "dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
# Words that make another number of the one before them, and so are no units.
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


def number(answer: str) -> Fraction | None:
    """Return the exact number that a spelled answer is, ``18 million`` too, without the unit behind it; else None."""
    if len(answer) > _LONGEST_NUMBER:
        return None
    if match := _NUMBER.fullmatch(answer):
        digits = match["digits"].replace(",", "")
        exponent = int(match["in_braces"] or match["in_the_open"] or match["after_e"] or 0)
        if not digits or abs(exponent) > _LARGEST_EXPONENT:
            return None
        value = Fraction(digits) * Fraction(10) ** exponent
    elif (match := _FRACTION.fullmatch(answer)) and int(match["bottom"] or match["after"]):
        top, bottom = match["top"] or match["before"], match["bottom"] or match["after"]
        value = int(match["whole"] or 0) + Fraction(int(top), int(bottom))
    else:
        return None
    factor = multiplier(match["unit"])
    return value * (-factor if match["sign"] == "-" else factor) if factor else None


def multiplier(behind: str) -> int:
    """Return the factor of the words behind a number: 1 of a unit, 1000 of ``thousand``; 0 where they mean something else."""
    factor, remaining = 1, re.findall("[a-zA-Z]+", _NO_WORDS.sub(" ", behind))
    while remaining and remaining[0].casefold() in _SCALES:
        factor *= _SCALES[remaining.pop(0).casefold()]
    if _LONE_DIGIT.search(behind) or remaining[:1] in (["squared"], ["cubed"]):  # inches squared are a unit
        return 0
    return factor if all(map(_is_unit, remaining)) else 0


def _is_unit(word: str) -> bool:
    if len(word) < 3:
        return word in _SHORT_UNITS
    return word.casefold() not in _NO_UNITS | _SCALES.keys() and not set(word) <= set("abcxyz")


# Lists and chains of equations.

_COMMA = re.compile(",")
_RELATION = re.compile(r"=|\\(?:approx|simeq)(?![a-zA-Z])")
_NO_CHAIN = re.compile(r"[,&<>]|\\\\|\\(?:le|ge|ne|neq|lt|gt|in|pm|equiv)(?![a-zA-Z])")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def results(answer: str) -> list[str]:
    """Return the last member of a chain of equations, and the one before where the last is its approximation.

    Empty where a spelled answer is no such chain: in lists and inequalities, ``=`` belongs to each part.
    """
    if _NO_CHAIN.search(answer):
        return []
    members, relations = _split(answer, _RELATION)
    if not relations or not all(members):
        return []
    return members[-1:] if relations[-1] == "=" else members[-2:]


def parts(answer: str) -> tuple[str, list[str]]:
    """Split a spelled answer into its outer brackets (``{}`` for a set, none for a bare list) and its members.

    ``(2, 3]`` is ``("(]", ["2", "3"])``, ``1,-2`` is ``("", ["1", "-2"])``; an answer that isn't a list is its only member.
    """
    whole = text = answer.strip()
    brackets = ""
    if text.startswith(r"\{") and text.endswith(r"\}"):
        brackets, text = "{}", text[2:-2]
    elif text[:1] in ("(", "[") and text[-1] in ")]" and _encloses(text):
        brackets, text = text[0] + text[-1], text[1:-1]
    elif _THOUSANDS.fullmatch(text):
        return "", [text]
    members, _ = _split(text, _COMMA)
    return (brackets, members) if len(members) > 1 or brackets == "{}" else ("", [whole])


def _split(text: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Split a text at the separators outside all brackets; return the members and the separators."""
    depths = _depths(text)
    cuts = [match for match in separator.finditer(text) if depths[match.start()] == 0]
    begins, ends = [0, *(cut.end() for cut in cuts)], [*(cut.start() for cut in cuts), len(text)]
    members = [text[begin:end].strip() for begin, end in zip(begins, ends, strict=True)]
    return members, [cut[0] for cut in cuts]


def _encloses(text: str) -> bool:
    """Return whether the first bracket is closed by the last character."""
    depths = _depths(text)
    return 0 in depths and depths.index(0) == len(text) - 1


def _depths(text: str) -> list[int]:
    """Count the open brackets after each character."""
    return list(accumulate((character in "([{") - (character in ")]}") for character in text))


# Comparison.

TOLERANCE = {  # relative, of numbers that aren't integers; of all numbers where they are measured
    "number": Fraction(0),
    "math": Fraction(1, 10**6),  # a fraction written to six digits, as math-verify has it
    "measured": Fraction(1, 100),  # ours: courses round constants and results to two or three digits
}
_BASE = re.compile(r"([0-9A-F]+)_\{?\d+\}?")


def settled(kind: Kind, answer: str, gold: str) -> bool | None:
    """Return whether an answer is the gold one as far as spelling, words and plain numbers decide; None where it takes algebra."""
    if kind == "choice":
        return answer == gold.strip()
    answer, gold = spelled(answer), spelled(gold)
    bare_answer, bare_gold = bare(answer), bare(gold)
    if bare_gold in (bare_answer, name_and_value(bare_answer)[1]) or bare_answer == name_and_value(bare_gold)[1]:
        return True
    if base := _BASE.fullmatch(bare_gold):
        return bare_answer == base[1]
    answer_words, gold_words = words(answer), words(gold)
    if answer_words is not None and gold_words is not None:
        return answer_words == gold_words
    answer_number, gold_number = number(answer), number(gold)
    if answer_number is None or gold_number is None:
        return None
    return close(answer_number, gold_number, kind)


def close(answer: Fraction, gold: Fraction, kind: Kind) -> bool:
    """Return whether two numbers are equal to within the precision of a kind's gold answers."""
    if kind != "measured" and gold.denominator == 1:
        return answer == gold
    return abs(answer - gold) <= TOLERANCE[kind] * abs(gold)
