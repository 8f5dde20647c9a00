"""Who is the spy? A self-play game whose votes are verifiable rewards for open-ended language tasks.

The core (everything but the doors) needs the standard library alone. The doors are imported when first used:
``spy_env.spy_v0`` for PettingZoo and ``spy_env.seat_view`` for Gymnasium.
"""

from spy_env.ballot import ABSTAIN, UNREADABLE, Vote, parse_vote, render_ballot
from spy_env.documents import Document, read_documents, shorten
from spy_env.game import STAGES, Game, Performance, RawReply, Rules, Stage, deal
from spy_env.masking import Span, choose_spans, hide
from spy_env.observations import observe
from spy_env.prompts import Prompts, load_prompts, prompts_names
from spy_env.records import from_json, read_games, to_json, write_games
from spy_env.rewards import PRESETS, RewardRules, Tally, detection_rewards, performing_rewards
from spy_env.seats import ROLES, Seat, number_of, player_seats, referee_seats
from spy_env.tasks import Task, load_task, shipped_documents, task_names

__version__ = "0.2.0.dev0"
__all__ = [
    "ABSTAIN",
    "PRESETS",
    "ROLES",
    "STAGES",
    "UNREADABLE",
    "Document",
    "Game",
    "Performance",
    "Prompts",
    "RawReply",
    "RewardRules",
    "Rules",
    "Seat",
    "Span",
    "Stage",
    "Tally",
    "Task",
    "Vote",
    "choose_spans",
    "deal",
    "detection_rewards",
    "from_json",
    "hide",
    "load_prompts",
    "load_task",
    "number_of",
    "observe",
    "parse_vote",
    "performing_rewards",
    "player_seats",
    "prompts_names",
    "read_documents",
    "read_games",
    "referee_seats",
    "render_ballot",
    "shipped_documents",
    "shorten",
    "task_names",
    "to_json",
    "write_games",
]
