"""The game must never be what training waits for. One core, constant replies, documents of 2,000 words."""

import time
from random import Random

import pytest

from spy_env import Document, RawReply, RewardRules, Rules, Stage, deal, observe, spy_v0

pytestmark = pytest.mark.slow

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PERFORMANCE = RawReply("Summary: " + " ".join(["word"] * 150))  # the length that the summarization task asks for
VOTE = RawReply("Player 2 leaves out a part. \\boxed{2}")
ROUNDS = 9


def document(words=2000):
    rng = Random(words)
    text = " ".join("".join(rng.choices(LETTERS, k=rng.randint(2, 9))) + "." * (i % 15 == 14) for i in range(words))
    return Document("d", text)


def rules(players=5):
    return Rules(players=players, document_words=100_000)


def core(on, seed, players=5):
    """A game from the deal to the rewards, without a door. Returns its prompts."""
    game = deal(on, "summarization", rules(players), seed)
    performing = observe(game, Stage.PERFORMING)
    game = game.with_replies(dict.fromkeys(performing, PERFORMANCE))
    detection = observe(game, Stage.DETECTION)
    game = game.with_replies(dict.fromkeys(detection, VOTE))
    assert game.rewards(RewardRules())
    return [*performing.values(), *detection.values()]


def through_aec(env, seed):
    env.reset(seed=seed)
    while not env.terminations[env.agent_selection]:
        agent = env.agent_selection
        performing = env.observe(agent)["prompt"] and env.infos[agent]["stage"] == Stage.PERFORMING
        env.step(PERFORMANCE.text if performing else VOTE.text)


def seconds(times, *functions):
    """Processor time of one call of each, least of several rounds in which they take turns: others' load only adds."""
    least = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            start = time.process_time()
            for seed in range(times):
                function(seed)
            least[i] = min(least[i], (time.process_time() - start) / times)
    return least


def test_the_core_plays_a_thousand_games_a_second():
    on = document()
    (game,) = seconds(100, lambda seed: core(on, f"{seed}"))
    assert 1 / game >= 1000, f"{1 / game:.0f} games a second"


def test_the_aec_door_plays_three_hundred_games_a_second():
    env = spy_v0.env(documents=[document()], rules=rules())
    (game,) = seconds(50, lambda seed: through_aec(env, seed))
    assert 1 / game >= 300, f"{1 / game:.0f} games a second"


def test_a_game_takes_at_most_three_times_as_long_as_joining_its_prompts():
    on = document()
    words = [prompt.split(" ") for prompt in core(on, "0")]
    assert len(words) == 10
    game, joined = seconds(100, lambda seed: core(on, f"{seed}"), lambda seed: [" ".join(prompt) for prompt in words])
    assert game <= 3 * joined, f"{game / joined:.2f} times"


def test_time_grows_at_most_linearly_with_players():
    on = document()
    three, five, eight = seconds(60, *(lambda seed, n=n: core(on, f"{seed}", players=n) for n in (3, 5, 8)))
    assert five <= 1.3 * three * 5 / 3, f"{five / three:.2f} times for 5 instead of 3"
    assert eight <= 1.3 * five * 8 / 5, f"{eight / five:.2f} times for 8 instead of 5"


@pytest.mark.parametrize("words", [1000, 2000, 4000, 8000])
def test_a_document_twice_as_long_takes_about_twice_the_time(words):
    short, long = document(words), document(2 * words)
    once, twice = seconds(30, lambda seed: core(short, f"{seed}"), lambda seed: core(long, f"{seed}"))
    assert twice <= 2.6 * once, f"{twice / once:.2f} times"
