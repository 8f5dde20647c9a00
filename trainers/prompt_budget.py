"""Every prompt fits its budget of tokens because the document is shortened first, never the finished prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spy_env import Document, Game, RawReply, Rules, Seat, Stage, deal, observe
from spy_env.ballot import render_ballot
from spy_env.documents import PLAYABLE_UNITS, shorten
from spy_env.masking import count_units, hide
from trainers.engines import Reader, Sampling


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """The limit on prompts: ``max_len`` is prompt + reply in tokens, for every reader; None limits nothing."""

    readers: Sequence[Reader]
    sampling: Mapping[Stage, Sampling]
    max_len: int | None = None

    def excess(self, game: Game, stage: Stage) -> int:
        """Return by how many tokens the stage's longest prompt and reply exceed ``max_len``; 0 or less if they fit."""
        if self.max_len is None:
            return 0
        sampling = self.sampling[stage]
        prompts = set(observe(game, stage).values())
        longest = max(reader.count_tokens(prompt, sampling.prefill) for reader in self.readers for prompt in prompts)
        return longest + sampling.max_new_tokens - self.max_len


def deal_to_fit(
    document: Document, task: str, rules: Rules, seed: str, trained: Stage | None, budget: PromptBudget
) -> Game:
    """Deal a game whose document is short enough for both stages' prompts.

    Vote prompts are sized with a stand-in ballot: every performance of full length, in the document's own words.

    Raises:
        ValueError: even the shortest playable document leaves no room.
    """
    game = deal(document, task, rules, seed, trained)
    while (
        excess := max(
            budget.excess(game, Stage.PERFORMING), budget.excess(_with_full_ballot(game, budget), Stage.DETECTION)
        )
    ) > 0:
        fewer = _fewer_words(game, excess, budget)
        game = deal(document, task, replace(rules, document_words=fewer), seed, trained)
    return game


def _with_full_ballot(game: Game, budget: PromptBudget) -> Game:
    """Fill the game with performances of full length, repetitions of the document's text."""
    if budget.max_len is None:
        return game
    text = " ".join(game.document.text.split())
    units = count_units(text)
    # The reader with the fewest tokens for this text packs the most words into a performance.
    fewest_tokens = min(filter(None, (_tokens(text, reader) for reader in budget.readers)), default=1)
    most_units = budget.sampling[Stage.PERFORMING].max_new_tokens * units // fewest_tokens + 1
    stand_in = shorten(" ".join([text] * (most_units // units + 1)), most_units)
    return game.with_replies({seat: RawReply(stand_in) for seat in game.players})


def _tokens(text: str, reader: Reader) -> int:
    """Return the length of a text alone, without the chat template; 0 if the reader knows no limit."""
    return max(0, reader.count_tokens(text, "") - reader.count_tokens("", ""))


def _document_tokens(game: Game, budget: PromptBudget) -> int:
    """Return the tokens of the longer of the document's two copies, for the reader that needs the most."""
    text = game.document.text
    copies = (text, hide(text, game.hidden, game.rules.operator))
    return max(1, *(_tokens(copy, reader) for copy in copies for reader in budget.readers))


def _fewer_words(game: Game, excess: int, budget: PromptBudget) -> int:
    """Return how many words to keep so that about ``excess`` tokens go."""
    words = count_units(game.document.text)
    if words <= PLAYABLE_UNITS:
        raise ValueError(
            f"prompts are {excess} tokens too long although the document has only {words} words left; raise max_len "
            f"(now {budget.max_len}) or lower max_new_tokens"
        )
    fewer = int(words * (1 - excess / _document_tokens(game, budget)))
    return max(PLAYABLE_UNITS, min(words - 1, fewer))


def fit_votes(game: Game, budget: PromptBudget) -> Game:
    """Cut the document further in the vote prompts if the ballot is longer than the stand-in was.

    If no document is left to cut, performances are shown up to the tokens that a performance may have: a text can take
    several times as many tokens when it is read as when it was generated.

    Raises:
        ValueError: there is no room even for cut performances.
    """
    fitting = _shorter_document(game, budget)
    # By a quarter less each time, our choice: the texts around the performances may be longer than in the stand-in, too.
    tokens_each = budget.sampling[Stage.PERFORMING].max_new_tokens
    while fitting is None and tokens_each:
        fitting = _shorter_document(replace(game, shown_characters=_shown(game, budget, tokens_each)), budget)
        tokens_each = (
            tokens_each * 3 // 4
        )  # our choice; where what surrounds the performances was longer than allowed for
    if fitting is None:
        raise ValueError(
            f"game {game.seed}: prompts to vote leave no room for a ballot; raise max_len (now {budget.max_len}) or lower "
            "max_new_tokens"
        )
    return fitting


def _shorter_document(game: Game, budget: PromptBudget) -> Game | None:
    """Show as much of the document in vote prompts as fits; None if the ballot leaves it no room."""
    while (excess := budget.excess(game, Stage.DETECTION)) > 0:
        units = count_units(game.document.text)
        kept = game.detection_words or units
        tokens_per_word = _document_tokens(game, budget) / units
        if kept <= PLAYABLE_UNITS:
            return None
        game = replace(
            game, detection_words=max(PLAYABLE_UNITS, min(kept - 1, kept - int(excess / tokens_per_word) - 1))
        )
    return game


def _shown(game: Game, budget: PromptBudget, tokens_each: int) -> dict[Seat, int]:
    """Return how many characters to show of each performance that takes more than ``tokens_each`` tokens on the ballot."""
    cut = {}
    for seat, performance in game.performances().items():
        text = performance.text
        while (
            tokens := max(_tokens(render_ballot([text]), reader) for reader in budget.readers)
        ) > tokens_each and text:
            text = text[: min(len(text) - 1, len(text) * tokens_each // tokens)]
        if text != performance.text:
            cut[seat] = len(text)
    return cut
