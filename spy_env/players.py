"""Players without a model. A player is a function from a prompt to a reply, whatever stands behind it."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from spy_env.documents import shorten
from spy_env.masking import MARKER, units
from spy_env.observations import read_document, read_results
from spy_env.wording import content_words, shingles, without_copies

Player = Callable[[str], str]

COPIED, PASSAGES = 5, 3  # words in a row; a voter checks one passage of so many; our choices
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")  # not within 3.5


def lead_sentences(prompt: str, words: int = 60) -> str:
    """Perform with the document's first sentences, up to ``words`` units; sentences with hidden parts are left out."""
    sentences = [sentence for sentence in _SENTENCE.split(read_document(prompt)) if not _holds_hidden(sentence)]
    return shorten(" ".join(sentences).strip(), words)


def _holds_hidden(sentence: str) -> bool:
    return "**" in sentence or MARKER in sentence


def word_overlap_vote(prompt: str) -> str:
    """Vote for the performance with the fewest of the document's distinct words; N/A if all have as many."""
    document = set(_WORD.findall(read_document(prompt).casefold()))
    shared = {number: len(document & set(_WORD.findall(text.casefold()))) for number, text in read_results(prompt)}
    least = min(shared, key=shared.__getitem__)
    return r"\boxed{N/A}" if len(set(shared.values())) == 1 else rf"\boxed{{{least}}}"


def scripted_player(words: int = 60) -> Player:
    """Make a player that performs with the lead sentences and votes by word overlap."""

    def play(prompt: str) -> str:
        return word_overlap_vote(prompt) if read_results(prompt) else lead_sentences(prompt, words)

    return play


def random_player(seed: int | str = 0) -> Player:
    """Make a player that performs with a random sentence of the document and votes at random, from its own seed."""
    rng = Random(seed)

    def play(prompt: str) -> str:
        ballot = read_results(prompt)
        if ballot:
            return rf"\boxed{{{rng.choice(ballot)[0]}}}"
        return rng.choice([sentence for sentence in _SENTENCE.split(read_document(prompt)) if sentence] or [""])

    return play


def coverage_player(seed: int | str = 0, words: int = 60) -> Player:
    """Make a player that performs with the lead sentences and votes by a passage of the document, drawn from its own seed.

    It votes for the performance that says least of the passage: content words of it, less those that the whole document
    doesn't have, at the passage's share of the document. Runs of ``COPIED`` words that are in the document don't count. N/A
    if all are alike. Several such voters check a document from beginning to end.
    """
    rng = Random(seed)

    def play(prompt: str) -> str:
        ballot = read_results(prompt)
        if not ballot:
            return lead_sentences(prompt, words)
        document = read_document(prompt)
        passage, known = _passage(document, rng), content_words(document)
        runs = shingles(document, COPIED)
        texts = [content_words(without_copies(text, runs, COPIED)) for _, text in ballot]
        said = [PASSAGES * len(own & passage) - len(own - known) for own in texts]
        least = [number for (number, _), count in zip(ballot, said, strict=True) if count == min(said)]
        return r"\boxed{N/A}" if len(least) == len(ballot) else rf"\boxed{{{rng.choice(least)}}}"

    return play


def _passage(document: str, rng: Random) -> set[str]:
    """Draw one of the document's passages, anywhere; return its content words."""
    spans = list(units(document))
    size = max(1, len(spans) // PASSAGES)
    first = rng.randrange(len(spans) - size + 1) if spans else 0
    return content_words(document[spans[first].start : spans[first + size - 1].end]) if spans else set()


def human_player(read: Callable[[], str] = input, write: Callable[[str], None] = print) -> Player:
    """Make a player of somebody at a terminal, who sees the prompt and types lines until an empty one.

    A bare number or ``N/A`` is taken for a vote. The end of input ends the reply.
    """

    def play(prompt: str) -> str:
        write("\n" + "-" * 72 + "\n" + prompt)
        voting = bool(read_results(prompt))
        write("Your vote, a player's number or N/A:" if voting else "Your reply; an empty line ends it:")
        lines: list[str] = []
        while True:
            try:
                line = read()
            except EOFError:
                break
            if not line.strip() and lines:
                break
            lines.append(line)
            if voting:
                break
        said = "\n".join(lines).strip()
        return rf"\boxed{{{said}}}" if voting and "\\boxed" not in said else said

    return play
