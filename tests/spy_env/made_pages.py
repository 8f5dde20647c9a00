"""Pages to look at: many different games, without a model, in one file."""

from dataclasses import replace
from random import Random

from spy_env import Document, RawReply, Rules, Stage, deal
from spy_env.viewer.page import page_of
from tests.spy_env.test_page import PLAIN

TASKS = ("summarization", "creative_writing", "math_reasoning")
SAID = ("\\boxed{1}", "I think it is \\boxed{2}.", "\\boxed{3}", "\\boxed{N/A}", "I cannot tell.")


def page_file(folder, games, reveal=False):
    """The page of some games, written to a folder."""
    file = folder / "page.html"
    file.write_text(page_of(games, reveal), encoding="utf-8")
    return file


def many_games(count, words):
    """Games of ``words`` words in all stages, ten of them a step; game n has ``needle of game n`` in its document."""
    rng = Random(0)
    vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 11))) for _ in range(5000)]
    games = []
    for n in range(count):
        text = " ".join(
            [*rng.choices(vocabulary, k=words // 2), f"needle of game {n}", *rng.choices(vocabulary, k=words // 2)]
        )
        rules = Rules(players=5, voters=rng.choice(("all", "referees")), document_words=2 * words)
        game = deal(Document(f"document-{n}", text), TASKS[n % 3], rules, f"0/{n // 10 + 1}/{n}", Stage.DETECTION)
        for _ in range(2 if n % 9 > 1 else n % 9):  # some have no performances, some no votes
            performing = game.stage is Stage.PERFORMING
            said = (lambda: " ".join(rng.choices(vocabulary, k=100))) if performing else (lambda: rng.choice(SAID))
            game = game.with_replies({seat: RawReply(said()) for seat in game.waiting})
        games.append((n + 1, game, replace(PLAIN, point=f"step {n // 10 + 1}")))
    return games
