"""Play games with engines: all games advance together, one batch a stage and engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spy_env import Document, Game, RawReply, Rules, Seat, Stage, deal, observe
from spy_env.documents import PLAYABLE_UNITS, shorten
from spy_env.masking import count_units, hide
from trainers.engines import Engine, Failed, Reply, Request, Sampling

RETRIES = 2  # how often a game is played again from the same deal when the infrastructure failed
STAGES = (Stage.PERFORMING, Stage.DETECTION)
Replies = Mapping[Stage, Mapping[Seat, Reply]]


class GamesFailedError(RuntimeError):
    """The infrastructure failed some games too often. Nothing of them was scored."""

    def __init__(self, failures: Sequence[tuple[Game, str]]) -> None:
        """Name the games and why each failed."""
        self.failures = list(failures)
        named = "; ".join(f"game {game.seed}: {reason}" for game, reason in failures[:3])
        more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
        super().__init__(f"{len(failures)} game(s) could not be played in {1 + RETRIES} tries: {named}{more}")


@dataclass(frozen=True, slots=True)
class Played:
    """A game that is over, with the tokens behind its replies. Only the game is written to disk."""

    game: Game
    replies: Replies


@dataclass(frozen=True, slots=True)
class Seating:
    """Who plays and how: one engine for all seats, ``others`` for some, sampling by stage, and the models' room.

    ``others`` are named by seat or by role; a seat goes before its role. ``max_len`` is prompt + reply in tokens, for
    every engine; None where nothing limits them.
    """

    engine: Engine
    sampling: Mapping[Stage, Sampling]
    max_len: int | None = None
    others: Mapping[str, Engine] = field(default_factory=dict)

    def engine_of(self, game: Game, seat: Seat) -> Engine:
        """The engine that plays a seat of a game; which seat is the spy's, the game knows."""
        return self.others.get(seat) or self.others.get(game.role(seat)) or self.engine

    @property
    def engines(self) -> list[Engine]:
        """Every engine, once."""
        return list({id(engine): engine for engine in (self.engine, *self.others.values())}.values())

    def excess(self, game: Game, stage: Stage) -> int:
        """By how many tokens the stage's longest prompt is too long; before the performances, a ballot is allowed for."""
        if self.max_len is None:
            return 0
        sampling = self.sampling[stage]
        prompts = set(observe(game, stage).values())
        longest = max(engine.count_tokens(prompt, sampling.prefill) for engine in self.engines for prompt in prompts)
        return longest + sampling.max_new_tokens - self.max_len


def deal_to_fit(
    document: Document, task: str, rules: Rules, seed: str, trained: Stage | None, seating: Seating
) -> Game:
    """Deal a game whose document is short enough for both stages' prompts.

    Vote prompts are sized with a stand-in ballot: every performance of full length, in the document's own words.

    Raises:
        ValueError: even the shortest playable document leaves no room.
    """
    game = deal(document, task, rules, seed, trained)
    while (
        excess := max(
            seating.excess(game, Stage.PERFORMING), seating.excess(_with_full_ballot(game, seating), Stage.DETECTION)
        )
    ) > 0:
        fewer = _fewer_words(game, excess, seating)
        game = deal(document, task, replace(rules, document_words=fewer), seed, trained)
    return game


def _with_full_ballot(game: Game, seating: Seating) -> Game:
    if seating.max_len is None:
        return game
    text = " ".join(game.document.text.split())
    have = count_units(text)
    fewest = min(filter(None, (_tokens(text, engine) for engine in seating.engines)), default=1)  # says the most words
    wanted = seating.sampling[Stage.PERFORMING].max_new_tokens * have // fewest + 1
    stand_in = shorten(" ".join([text] * (wanted // have + 1)), wanted)
    return game.with_replies({seat: RawReply(stand_in) for seat in game.players})


def _tokens(text: str, engine: Engine) -> int:
    """The length of a text alone, without the chat template; 0 where the engine knows no limit."""
    return max(0, engine.count_tokens(text, "") - engine.count_tokens("", ""))


def _document_tokens(game: Game, seating: Seating) -> int:
    """What the document takes in the longer of its two copies, at the engine that needs the most tokens."""
    text = game.document.text
    copies = (text, hide(text, game.hidden, game.rules.operator))
    return max(1, *(_tokens(copy, engine) for copy in copies for engine in seating.engines))


def _fewer_words(game: Game, excess: int, seating: Seating) -> int:
    """How many words to keep so that about ``excess`` tokens go."""
    now = count_units(game.document.text)
    fewer = min(now - 1, int(now * (1 - excess / _document_tokens(game, seating))))
    if now <= PLAYABLE_UNITS:
        raise ValueError(
            f"prompts are {excess} tokens too long although the document has only {now} words left; raise max_len "
            f"(now {seating.max_len}) or lower max_new_tokens"
        )
    return max(PLAYABLE_UNITS, fewer)


def play_games(
    games: Sequence[Game], seating: Seating, on_failure: Callable[[Game, str], None] | None = None
) -> list[Played]:
    """Play dealt games to their end, in order.

    A game that the infrastructure fails is played again from the same deal, ``RETRIES`` times at most. Then
    ``on_failure`` is told and the game is left out; without ``on_failure`` the error names it.

    Raises:
        GamesFailedError: games failed, and there is no ``on_failure``.
    """
    played: dict[str, Played] = {}
    failures: list[tuple[Game, str]] = []
    waiting = list(games)
    for _ in range(1 + RETRIES):
        failures = []
        for game, result in zip(waiting, _play_once(waiting, seating), strict=True):
            if isinstance(result, Failed):
                failures.append((game, result.reason))
            else:
                played[game.seed] = result
        waiting = [game for game, _ in failures]
        if not waiting:
            break
    if failures and on_failure is None:
        raise GamesFailedError(failures)
    for game, reason in failures:
        if on_failure is not None:
            on_failure(game, reason)
    return [played[game.seed] for game in games if game.seed in played]


def _play_once(games: Sequence[Game], seating: Seating) -> list[Played | Failed]:
    results: list[Played | Failed] = [Played(game, {}) for game in games]
    for stage in STAGES:
        going = [(i, result) for i, result in enumerate(results) if isinstance(result, Played)]
        for (i, _), after in zip(going, _play_stage([result for _, result in going], stage, seating), strict=True):
            results[i] = after
    return results


def _play_stage(played: Sequence[Played], stage: Stage, seating: Seating) -> list[Played | Failed]:
    fitting = [replace(one, game=_fit_votes(one.game, seating)) if stage is Stage.DETECTION else one for one in played]
    asked = [(i, seat, prompt) for i, one in enumerate(fitting) for seat, prompt in observe(one.game, stage).items()]
    sampling = seating.sampling[stage]
    answers: list[dict[Seat, Reply | Failed]] = [{} for _ in fitting]
    by_engine: dict[int, list[tuple[int, Seat, str]]] = {}
    for i, seat, prompt in asked:
        by_engine.setdefault(id(seating.engine_of(fitting[i].game, seat)), []).append((i, seat, prompt))
    for engine in seating.engines:
        if not (batch := by_engine.get(id(engine))):
            continue
        requests = [Request(prompt, f"{fitting[i].game.seed}/{stage}/{seat}", sampling) for i, seat, prompt in batch]
        replies = engine.generate(requests)
        for (i, seat, _), reply in zip(batch, replies, strict=True):
            answers[i][seat] = reply
    return [_advance(one, stage, answer) for one, answer in zip(fitting, answers, strict=True)]


def _advance(played: Played, stage: Stage, answers: Mapping[Seat, Reply | Failed]) -> Played | Failed:
    replies: dict[Seat, Reply] = {}
    for seat, answer in answers.items():
        if isinstance(answer, Failed):
            return Failed(f"{seat} in stage {stage}: {answer.reason}")
        replies[seat] = answer
    raw = {seat: RawReply(reply.text, reply.prefix, reply.truncated) for seat, reply in replies.items()}
    return Played(played.game.with_replies(raw), {**played.replies, stage: replies})


def _fit_votes(game: Game, seating: Seating) -> Game:
    """Where the ballot turned out longer than allowed for, cut the document further in the vote prompts."""
    while (excess := seating.excess(game, Stage.DETECTION)) > 0:
        units = count_units(game.document.text)
        kept = game.detection_words or units
        tokens_a_word = _document_tokens(game, seating) / units
        if kept <= PLAYABLE_UNITS:
            raise ValueError(
                f"game {game.seed}: the ballot alone is {excess} tokens too long; raise max_len (now {seating.max_len}) "
                "or lower max_new_tokens"
            )
        game = replace(game, detection_words=max(PLAYABLE_UNITS, min(kept - 1, kept - int(excess / tokens_a_word) - 1)))
    return game
