"""What verifiers finds under the id ``who-is-the-spy``: it imports a top-level module of that name, and reads ``__all__``."""

from trainers.verifiers.environment import SpyEnv
from trainers.verifiers.harness import ReplyHarness
from trainers.verifiers.taskset import SpyTaskset

__all__ = ["ReplyHarness", "SpyEnv", "SpyTaskset"]
