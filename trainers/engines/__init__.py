"""Text in, tokens and log-probabilities out: every kind of player that may sit on a seat."""

from trainers.engines.protocol import Engine, Failed, Reader, Reply, Request, Sampling

__all__ = ["Engine", "Failed", "Reader", "Reply", "Request", "Sampling"]
