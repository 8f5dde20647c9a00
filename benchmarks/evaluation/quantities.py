"""Numbers in answers, and the units and words that stand behind them. Pure and in linear time, as ``answers.py``."""

from __future__ import annotations

import re
from fractions import Fraction

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
