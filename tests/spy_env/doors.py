"""Games to test with, seats that reply, and one function a door that plays a dealt game to its end."""

from zlib import crc32

from spy_env import Document, Rules, Stage, deal, player_seats, referee_seats, spy_v0
from spy_env.observations import read_results
from trainers.engines import Sampling
from trainers.engines.players import ScriptedEngine
from trainers.rollout import SeatPolicies, rollout

VOTERS = ("all", "civilians", "referees")
TABLES = (
    *VOTERS,
    "all voter",
    "referees voter",
    "all seat lean",
    "referees voter lean",
)  # with ballot order and prompts
PLAYERS = 4
REFEREES = 3
SEATS = (*player_seats(PLAYERS), *referee_seats(REFEREES))
SAMPLING = {Stage.PERFORMING: Sampling(max_new_tokens=64), Stage.DETECTION: Sampling(max_new_tokens=16)}
VOTES = ("\\boxed{1}", "\\boxed{Player 3}", "\\boxed{N/A}", "\\boxed{2}", "I cannot tell.", "\\boxed{9}", "\\boxed{1}")


def document(words=60, name="d"):
    """A document in which no word occurs twice, nor anywhere else in a prompt."""
    return Document(name, " ".join(f"{name}x{i:04}." if i % 9 == 8 else f"{name}x{i:04}" for i in range(words)))


def rules(table, **more):
    """The rules of one of ``TABLES``."""
    named = dict(zip(("voters", "ballot_order", "prompts"), table.split(), strict=False))
    return Rules(players=PLAYERS, referees=REFEREES, **named, **more)


def dealt(voters, seed="1", task="summarization", **more):
    return deal(document(), task, rules(voters, **more), seed)


def says(seat, stage):
    """A reply that doesn't depend on what the seat is told; different for every seat."""
    if stage == Stage.PERFORMING:
        return f"<think>I am {seat}.</think>Summary: as told by number {SEATS.index(seat)}.\nThat is all."
    return VOTES[SEATS.index(seat)]


def echo(seat):
    """A player whose replies change with every byte that it is told."""

    def play(prompt):
        stage = Stage.DETECTION if read_results(prompt) else Stage.PERFORMING
        return f"{says(seat, stage)} ({crc32(prompt.encode())})"

    return play


ECHOES = {seat: echo(seat) for seat in SEATS}


def started(make, game, **more):
    """A PettingZoo environment, of ``make``, in which ``game`` is about to be played."""
    env = make(task=game.task, documents=[game.document], rules=game.rules, **more)
    env.reset()
    env.unwrapped.start(game)
    return env


def play_aec(env, players):
    """Through ``step``, until nobody lives. Returns the game, and the last cumulative rewards and infos."""
    rewards, infos = {}, {}
    for agent in env.agent_iter():
        observation, rewards[agent], terminated, _, infos[agent] = env.last()
        done_or_idle = terminated or infos[agent]["idle"]
        env.step(None if terminated else "" if done_or_idle else players[agent](observation["prompt"]))
    return env.unwrapped.game, rewards, infos


def play_parallel(env, players):
    """Through two parallel steps. Returns the game, and the summed rewards and last infos."""
    told = {agent: env.aec_env.observe(agent)["prompt"] for agent in env.agents}
    earned = dict.fromkeys(env.agents, 0.0)
    infos = {}
    while env.agents:
        actions = {agent: players[agent](prompt) if prompt else "" for agent, prompt in told.items()}
        observations, rewards, _, _, infos = env.step(actions)
        told = {agent: observation["prompt"] for agent, observation in observations.items()}
        earned = {agent: earned[agent] + rewards[agent] for agent in earned}
    return env.unwrapped.game, earned, infos


def play_batch(games, players):
    """Through the batched rollout, a scripted engine for every seat. Returns the games."""
    engines = {seat: ScriptedEngine(player) for seat, player in players.items()}
    seating = SeatPolicies(engine=engines[SEATS[0]], sampling=SAMPLING, others=engines)
    return [played.game for played in rollout(games, seating)]


class DealtTable(spy_v0.raw_env):
    """A table at which ``reset`` deals the game that it was given."""

    def __init__(self, game, **more):
        super().__init__(task=game.task, documents=[game.document], rules=game.rules, **more)
        self.dealt = game

    def reset(self, seed=None, options=None):
        self.start(self.dealt)
