"""PettingZoo's door to the game "Who is the spy?".

| | |
|---|---|
| Import | ``from spy_env import spy_v0`` |
| Constructors | ``env`` (AEC), ``parallel_env``, ``raw_env`` |
| Agents | ``player_1`` .. ``player_n``; with ``voters="referees"`` also ``referee_1`` .. ``referee_k`` |
| Observation | ``{"prompt": text}``, the seat's whole prompt; empty for a seat with nothing to do in the stage |
| Action | text: the seat's whole reply, in both stages; ``Reply`` is text with its ``prefix`` and whether it is ``truncated`` |
| Rewards | 0 until the last vote, then performing + detection reward; the parts are in ``infos`` |

A game is two cycles: all perform, then all vote. All agents live until the last vote and act in both cycles; a seat
with nothing to do has ``infos[agent]["idle"]`` set, and its action is ignored. A reply longer than the action space is
cut, and ``infos[agent]["cut"]`` says so until the agent's next one. ``reset(seed=...)`` chooses the deal,
``reset(options={"document": ...})`` the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pettingzoo
from gymnasium.spaces import Dict
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers
from pettingzoo.utils.conversions import parallel_wrapper_fn

from spy_env.documents import Document
from spy_env.game import Game, RawReply, Rules, Stage, deal
from spy_env.observations import observe
from spy_env.render import running_text
from spy_env.rewards import RewardRules
from spy_env.seats import Seat, player_seats, referee_seats
from spy_env.spaces import FreeText
from spy_env.tasks import load_task, shipped_documents

MAX_PROMPT = 10_000_000  # characters; our choice: no model reads more
MAX_REPLY = 100_000  # characters; the published runs end replies at 4,096 tokens


class Reply(str):
    """An action with a ``prefix`` that was put in the seat's mouth, and a flag if the reply was cut short (``truncated``).

    The string is the text after the prefix. A plain ``str`` is a reply without either.
    """

    prefix: str
    truncated: bool

    def __new__(cls, text: str, prefix: str = "", truncated: bool = False) -> Reply:
        reply = super().__new__(cls, text)
        reply.prefix, reply.truncated = prefix, truncated
        return reply


class raw_env(AECEnv[Seat, dict[str, str], str]):  # noqa: N801 - PettingZoo's name for it
    """The game as an AEC environment, without PettingZoo's order checks."""

    metadata = {"name": "spy_v0", "render_modes": ["human", "ansi"], "is_parallelizable": True, "render_fps": 1}  # noqa: RUF012 - as the base class declares it

    def __init__(
        self,
        task: str = "summarization",
        documents: Sequence[Document] | None = None,
        rules: Rules | None = None,
        rewards: RewardRules | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Play ``task`` on ``documents`` (default: the task's own).

        Raises:
            ValueError: no such task, or no documents.
        """
        super().__init__()
        self.task = task
        self.rules = rules or Rules()
        self.reward_rules = rewards or RewardRules()
        self.documents = list(documents) if documents is not None else list(shipped_documents(load_task(task)))
        if not self.documents:
            raise ValueError("documents is empty; give at least one Document")
        self.render_mode = render_mode
        referees = referee_seats(self.rules.referees) if self.rules.voters == "referees" else ()
        self.possible_agents = [*player_seats(self.rules.players), *referees]
        self.observation_spaces = {agent: Dict(prompt=FreeText(MAX_PROMPT)) for agent in self.possible_agents}
        self.action_spaces = {agent: FreeText(MAX_REPLY) for agent in self.possible_agents}
        self._random = Random()  # only until the first seed

    def observation_space(self, agent: Seat) -> Dict:
        """The same for every agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: Seat) -> FreeText:
        """The same for every agent and stage."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Deal a game. Without a seed the next one of this environment's stream of games is dealt.

        ``options["document"]`` may be a ``Document``; else one is drawn.

        Raises:
            ValueError: ``options["document"]`` is something else.
        """
        if seed is not None:
            self._random = Random(seed)
        game_seed = f"{self._random.getrandbits(64):016x}"
        document = (options or {}).get("document") if isinstance(options, dict) else None
        if document is None:
            document = self._random.choice(self.documents)
        if not isinstance(document, Document):
            raise ValueError(f"options['document'] is {type(document).__name__} {document!r}; give a spy_env.Document")
        self.start(deal(document, self.task, self.rules, game_seed))

    def start(self, game: Game) -> None:
        """Begin a game that has been dealt already, or go on with a saved one.

        Raises:
            ValueError: the game is over, or its seats aren't this environment's.
        """
        if game.stage is Stage.OVER:
            raise ValueError(f"game {game.seed} is over; start one that still waits for a reply")
        if {*game.players, *game.voters} != {*self.possible_agents}:
            raise ValueError(f"game {game.seed} has {game.rules}; this environment seats {self.possible_agents}")
        self.game = game
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._cut = dict.fromkeys(self.agents, False)
        self._begin_stage()

    def _begin_stage(self) -> None:
        told = observe(self.game, self.game.stage)
        self._prompts = {seat: told[seat] for seat in self.game.waiting}
        self._replies: dict[Seat, RawReply] = {}
        self._turn = 0
        self.agent_selection = self.agents[0]
        self.infos = {
            agent: {"stage": str(self.game.stage), "idle": agent not in self._prompts, "cut": self._cut[agent]}
            for agent in self.agents
        }

    def observe(self, agent: Seat) -> dict[str, str]:
        """Return the whole prompt of ``agent`` in the current stage; it doesn't change between turns."""
        return {"prompt": self._prompts.get(agent, "")}

    def step(self, action: str | None) -> None:
        """Take the reply of the agent whose turn it is.

        Raises:
            ValueError: the action isn't text.
        """
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._clear_rewards()
        self._cumulative_rewards[agent] = 0.0
        if agent in self._prompts:
            self._replies[agent] = self._reply(agent, action)
        self._turn += 1
        if self._turn < len(self.agents):
            self.agent_selection = self.agents[self._turn]
        else:
            self.game = self.game.with_replies(self._replies)
            self._end_game() if self.game.stage is Stage.OVER else self._begin_stage()
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def _reply(self, agent: Seat, action: str | None) -> RawReply:
        if not isinstance(action, str):
            raise ValueError(f"{agent} replied with {type(action).__name__} {action!r}; an action is text (str)")
        self._cut[agent] = len(action) > MAX_REPLY
        self.infos[agent] = {**self.infos[agent], "cut": self._cut[agent]}  # infos already handed out stay as they are
        prefix, truncated = getattr(action, "prefix", ""), getattr(action, "truncated", False)
        return RawReply(action[:MAX_REPLY], prefix, truncated or self._cut[agent])

    def _end_game(self) -> None:
        earned = self.game.rewards(self.reward_rules)
        votes = self.game.votes()
        self._prompts = {}
        self.agent_selection = self.agents[0]
        for agent in self.agents:
            performing, detection = earned.performing.get(agent, 0.0), earned.detection.get(agent, 0.0)
            self.rewards[agent] = performing + detection
            self.terminations[agent] = True
            self.infos[agent] = {
                "stage": str(Stage.OVER),
                "idle": False,
                "cut": self._cut[agent],
                "role": self.game.role(agent),
                "vote": votes.get(agent),
                "performing_reward": performing,
                "detection_reward": detection,
            }

    def render(self) -> str | None:
        """Render the game for an onlooker, without roles while it runs; mode ``human`` prints it."""
        text = running_text(self.game, self._turn, len(self.possible_agents), self.reward_rules)
        if self.render_mode == "human":
            print(text)
            return None
        return text

    def close(self) -> None:
        """Do nothing: no resources are held."""


def env(**kwargs: Any) -> Any:
    """Make the AEC environment with PettingZoo's order checks. Arguments as for ``raw_env``."""
    return wrappers.OrderEnforcingWrapper(raw_env(**kwargs))


parallel_env = parallel_wrapper_fn(env)

# an environment's id for pettingzoo.make("aec" or "parallel", "spy_env/Spy-v0"), once this module is imported
pettingzoo.register("aec", "spy_env/Spy-v0", entry_point="spy_env.spy_v0:env")
pettingzoo.register("parallel", "spy_env/Spy-v0", entry_point="spy_env.spy_v0:parallel_env")
