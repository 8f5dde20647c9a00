"""The numbers of one batch of games. Names follow TRL where it has one; ours begin with ``game/``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from spy_env import ABSTAIN, ROLES, STAGES, UNREADABLE, Game, RewardRules, Seat, Stage, Vote
from spy_env.diagnostics import detector_share, signal
from spy_env.diagnostics.estimates import Estimate, average, share
from spy_env.diagnostics.proxies import hidden_words
from spy_env.diagnostics.signal import text_measures
from trainers.curriculum import Curriculum, entropy_of, votes_cast
from trainers.samples import Sample


def mean(values: Sequence[float]) -> float:
    """Return the mean, or 0 without values."""
    return sum(values) / len(values) if values else 0.0


def game_metrics(games: Sequence[Game], rules: RewardRules) -> dict[str, float]:
    """Return shares and rewards over finished games. Shares of votes are of all replies, by voter role where it matters."""
    metrics: dict[str, float] = {
        "game/caught": mean([game.caught for game in games]),
        "game/no_readable_vote": mean([not game.readable for game in games]),
        "game/commonest_vote": commonest_number(games)[1],
        "game/vote_entropy": entropy_of(votes_cast(games)),
        "game/unmarked": mean([not shown.marked for game in games for shown in game.performances().values()]),
    }
    votes = [(game.role(seat), vote, game.spy) for game in games for seat, vote in game.votes().items()]
    metrics["game/readable"] = mean([vote != UNREADABLE for _, vote, _ in votes])
    metrics["game/accuracy"] = mean([vote == spy for role, vote, spy in votes if role != "spy"])
    for role in sorted({role for role, _, _ in votes}):
        cast = [(vote, spy) for voter, vote, spy in votes if voter == role]
        metrics[f"game/accuracy/{role}"] = mean([vote == spy for vote, spy in cast])
        metrics[f"game/abstained/{role}"] = mean([vote == ABSTAIN for vote, _ in cast])
        metrics[f"game/unreadable/{role}"] = mean([vote == UNREADABLE for vote, _ in cast])
    earned = [(game, game.rewards(rules)) for game in games]
    for role in ("spy", "civilian"):
        metrics[f"game/reward_performing/{role}"] = mean(
            [
                reward
                for game, rewards in earned
                for seat, reward in rewards.performing.items()
                if game.role(seat) == role
            ]
        )
    for stage in STAGES:
        metrics[f"game/truncated/{stage}"] = mean(
            [reply.truncated for game in games for reply in game.replies[stage].values()]
        )
    return metrics


def learner_metrics(games: Sequence[Game], rules: RewardRules, roles: Collection[str]) -> dict[str, float]:
    """Return the metrics of the learner's seats alone, if opponents play other roles. A spy's vote doesn't count for accuracy.

    Votes have metrics only where the learner votes.
    """
    performing = [(game, seat) for game in games for seat in game.players if game.role(seat) in roles]
    cast = [(game, seat, vote) for game in games for seat, vote in game.votes().items() if game.role(seat) in roles]
    shown = {game.seed: game.performances() for game in games}
    earned = {game.seed: game.rewards(rules).performing for game in games}
    said = Stage.PERFORMING
    metrics: dict[str, list[float]] = {
        "unmarked": [not shown[game.seed][seat].marked for game, seat in performing],
        "reward_performing": [earned[game.seed][seat] for game, seat in performing],
        f"truncated/{said}": [game.replies[said][seat].truncated for game, seat in performing],
        f"truncated/{Stage.DETECTION}": [game.replies[Stage.DETECTION][seat].truncated for game, seat, _ in cast],
        "readable": [vote != UNREADABLE for _, _, vote in cast],
        "accuracy": [vote == game.spy for game, seat, vote in cast if seat != game.spy],
        "abstained": [vote == ABSTAIN for game, seat, vote in cast if seat != game.spy],
    }
    return {f"game/learner/{name}": mean(values) for name, values in metrics.items() if values}


def commonest_number(games: Sequence[Game]) -> tuple[int, float]:
    """Return the number named most often (0: none), and its share of the votes that name one: 1/n unless voters have a habit."""
    named = Counter(number for game in games for number in game.numbers().values())
    if not named:
        return 0, 0.0
    number, count = named.most_common(1)[0]
    return number, count / named.total()


def sample_metrics(samples: Sequence[Sample]) -> dict[str, float]:
    """Return rewards and lengths of the trained replies. A group is a game's samples of one stage."""
    rewards = [sample.reward for sample in samples]
    groups: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        groups.setdefault((sample.game, sample.stage), []).append(sample.reward)
    average = mean(rewards)
    return {
        "reward": average,
        "reward_std": mean([(reward - average) ** 2 for reward in rewards]) ** 0.5,
        "frac_reward_zero_std": mean([max(group) == min(group) for group in groups.values()]),
        "completions/mean_length": mean([len(sample.ids) for sample in samples]),
        "completions/clipped_ratio": mean([sample.truncated for sample in samples]),
        "num_samples": float(len(samples)),
    }


def curriculum_metrics(curriculum: Curriculum) -> dict[str, float]:
    """Return baselines, running averages and forced switches after an iteration."""
    baselines = {f"game/baseline/{key}": value for key, value in curriculum.baselines.items()}
    return baselines | {
        "game/accuracy_average": curriculum.accuracy.value,
        "game/abstention_average": curriculum.abstention.value,
        "game/vote_entropy_average": curriculum.entropy,
        "game/forced_switches": float(curriculum.forced),
    }


__all__ = ["Estimate", "average", "measure", "share"]


def measure(games: Sequence[Game], rules: RewardRules) -> dict[str, Estimate]:
    """Measure a set of games, with intervals. The spy's vote counts too, except in detection accuracy."""
    cast = [(game, game.votes()) for game in games]

    def votes_that(hit: Callable[[Game, Seat, Vote], bool], of: Callable[[Game, Seat, Vote], bool]) -> Estimate:
        hits = [
            sum(of(game, seat, vote) and hit(game, seat, vote) for seat, vote in votes.items()) for game, votes in cast
        ]
        return share(hits, [sum(of(game, seat, vote) for seat, vote in votes.items()) for game, votes in cast])

    def any_vote(game: Game, seat: Seat, vote: Vote) -> bool:
        return True

    def by_detector(game: Game, seat: Seat, vote: Vote) -> bool:
        return seat != game.spy

    def names_somebody(game: Game, seat: Seat, vote: Vote) -> bool:
        return seat != game.spy and vote not in (ABSTAIN, UNREADABLE)

    def right(game: Game, seat: Seat, vote: Vote) -> bool:
        return vote == game.spy

    def names_the_commonest(game: Game, seat: Seat, vote: Vote) -> bool:
        return game.numbers().get(seat) == commonest

    def named(game: Game, seat: Seat, vote: Vote) -> bool:
        return vote not in (ABSTAIN, UNREADABLE)

    commonest, _ = commonest_number(games)
    estimates = {
        "readable votes": votes_that(lambda game, seat, vote: vote != UNREADABLE, any_vote),
        "votes that name a player": votes_that(named, any_vote),
        "detection accuracy": votes_that(right, by_detector),
        "detection accuracy where a player is named": votes_that(right, names_somebody),
        "named votes for the commonest number": votes_that(names_the_commonest, named),
    }
    earned = [(game, game.rewards(rules)) for game in games]
    for role in ROLES:
        for stage in STAGES:
            by_game = [
                [reward for seat, reward in getattr(rewards, stage).items() if game.role(seat) == role]
                for game, rewards in earned
            ]
            if any(by_game):
                estimates[f"{stage} reward, {role}"] = average([sum(own) / len(own) for own in by_game if own])
    return estimates | signal_estimates(games)


def changes(before: Sequence[Game], after: Sequence[Game]) -> dict[str, Estimate]:
    """Return the mean change of a measure over the same deals, played before and after; names are those of ``measure``."""
    pairs = list(zip(before, after, strict=True))
    if not pairs:
        return {}
    found = {"detection accuracy": average([detector_share(new) - detector_share(old) for old, new in pairs])}
    texts = [(text_measures(old), text_measures(new)) for old, new in pairs if hidden_words(old)]
    for name, by_role in texts[0][0].items() if texts else ():
        for role in by_role:
            found[f"{name}, {role}"] = average([new[name][role] - old[name][role] for old, new in texts])
    return found


def signal_estimates(games: Sequence[Game]) -> dict[str, Estimate]:
    """Return what the texts hold, by role, and how often detectors without a model find the spy; none without hidden words."""
    if (found := signal(games)) is None:
        return {}
    texts = {f"{name}, {role}": one for name, roles in found.measures.items() for role, one in roles.items()}
    return texts | {f"found by {name}": accuracy for name, accuracy in found.detectors.items()}
