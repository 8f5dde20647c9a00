"""Phrases that give a writer away without a word about the document: talk of what is missing, of one's role, refusals.

A cue that the document holds itself isn't counted: whoever tells what the document says may say it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

MASK, ROLE, REFUSAL = "mask", "role", "refusal"

# Our lists, made by reading what small models say with a masked copy. Each alternative is one cue.
CUES: Mapping[str, tuple[str, ...]] = {
    MASK: (
        r"(?<!\S)\*{2,3}(?!\S)",  # asterisks that set nothing in bold type
        r"\*{4,}",
        r"[\[(<（【](?:\.{3}|…+|\s*(?:hidden|masked|missing|redacted|blank(?:ed)?|omitted|removed|unknown|缺失|隐藏|省略)\s*)[\])>）】]",
        r"_{4,}",
        r"\bmissing\b",
        r"\bredacted\b",
        r"\bmasked\b",
        r"\basterisks?\b",
        r"\bblanked\b",
        r"\bomitted\b",
        r"\bobscured\b",
        r"\bincomplete\b",
        r"\bnot (?:visible|shown|provided|available)\b",
        r"\b(?:cut|blacked) out\b",
        r"\bhidden (?:text|part|passage|section|portion|words?)\b",
        r"缺失|缺少|残缺",
        r"遮[挡盖住蔽]|屏蔽|打码",
        r"隐[藏去]",
        r"星号",
        r"省略",
        r"不完整",
        r"空白",
    ),
    ROLE: (
        r"\bas (?:the|a) (?:spy|civilian)\b",
        r"\bi(?:['’]m| am| was) (?:not )?(?:the|a) (?:spy|civilian)\b",
        r"\b(?:spy|spies)\b",
        r"\bcivilians?\b",
        r"\bmy (?:copy|version) (?:of|is)\b",
        r"\bothers? players?\b|\bplayer \d+\b",
        r"卧底|间谍",
        r"平民",
        r"我的(?:文档|版本|副本)",
        r"[其别]他玩家",
    ),
    REFUSAL: (
        r"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b",
        r"\bi(?:['’]m| am) (?:sorry|unable|not able|an? (?:ai|language model))\b",
        r"\bi (?:apologi[sz]e|regret)\b",
        r"\bi (?:can['’]?t|can ?not|could(?: not|n['’]t)|won['’]?t|will not) (?:\w+ ){0,2}"
        r"(?:summari[sz]e|provide|write|answer|continue|complete|assist|help|determine|create|fulfil+|do)\b",
        r"\b(?:impossible|not possible) to (?:summari[sz]e|determine|say|tell|answer|complete)\b",
        r"\bnot enough (?:information|context)\b|\binsufficient information\b",
        r"抱歉|对不起|很遗憾",
        r"作为(?:一个|一名)?(?:AI|人工智能|语言模型)",
        r"我(?:无法|不能|没办法)",
        r"无法(?:总结|回答|确定|提供|完成|继续)",
        r"信息不足",
    ),
}
_COMPILED = {kind: [re.compile(cue, re.IGNORECASE) for cue in cues] for kind, cues in CUES.items()}


@lru_cache(maxsize=2048)  # windows of games overlap
def count_cues(kind: str, text: str, document: str) -> int:
    """How often a text uses cues of a kind that the whole document never uses."""
    found = ((len(cue.findall(text)), cue) for cue in _COMPILED[kind])
    return sum(count for count, cue in found if count and not cue.search(document))
