"""Run by CI beside the installed wheel alone: a game of a shipped task and one of a task from outside."""

from pathlib import Path

import spy_env
from spy_env import Document, shipped_documents, spy_v0, write_games
from spy_env.players import scripted_player
from spy_env.tasks import load_task

assert "site-packages" in spy_env.__file__, spy_env.__file__
play = scripted_player()
documents = list(shipped_documents(load_task("summarization")))
for task in ("summarization", "my_task.py"):
    env = spy_v0.env(task=task, documents=[Document("one", documents[0].text)])
    env.reset(seed=1)
    for _ in env.agent_iter():
        observation, reward, termination, truncation, info = env.last()
        env.step(None if termination or truncation else play(observation["prompt"]))
    write_games(Path("games.jsonl"), [env.unwrapped.game])
print("2 games played from the wheel")
