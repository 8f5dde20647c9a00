"""How much of what was hidden from the spy an output tells: words that only a civilian can have read."""

from __future__ import annotations

import re

from spy_env import Game

_CJK = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['’][^\W_{_CJK}]+)*")
# English words that tell nothing of a document's content; our list.
_FUNCTION_WORDS = """
    about above across after again against all almost along already also although always among and another any are
    around because been before being below between both but can cannot could did does doing done down during each either
    else ever every few for from further had has have having her here hers him his how however into its itself just less
    let like made make many may might more most much must neither never nor not now off often once one only onto other
    our out over own per perhaps rather same she should since some still such than that the their them then there
    therefore these they this those though through thus too under until upon very was were what when where whether which
    while who whom whose why will with within without would yet you your"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
SHORTEST = 3  # letters of a content word; our choice


def content_words(text: str) -> set[str]:
    """The distinct content words of a text: numbers, and words that aren't function words, in any case.

    Chinese and Japanese aren't written in words: there it is each pair of neighbouring characters.
    """
    found: set[str] = set()
    for token in _TOKEN.findall(text.casefold()):
        if re.match(f"[{_CJK}]", token):
            found.update(token[i : i + 2] for i in range(max(1, len(token) - 1)))
        elif any(map(str.isdigit, token)) or (len(token) >= SHORTEST and token not in FUNCTION_WORDS):
            found.add(token)
    return found


def only_hidden(game: Game) -> set[str]:
    """The content words of the hidden spans that stand nowhere else in the document."""
    text, hidden, seen, position = game.document.text, [], [], 0
    for span in game.hidden:
        seen.append(text[position : span.start])
        hidden.append(text[span.start : span.end])
        position = span.end
    seen.append(text[position:])
    return content_words("\n".join(hidden)) - content_words("\n".join(seen))


def coverage(text: str, words: set[str]) -> float:
    """The share of ``words``, of which there must be some, that a text holds."""
    return len(words & content_words(text)) / len(words)
