"""The module behind verifiers' id ``who-is-the-spy``: it imports a top-level module of that name and reads ``__all__``."""

from trainers.verifiers.environment import ReplyHarness, SpyEnv, SpyTaskset

__all__ = ["ReplyHarness", "SpyEnv", "SpyTaskset"]
