"""Text in, tokens and log-probabilities out: whatever may stand behind a seat."""

from trainers.engines.protocol import Engine, Failed, Reader, Reply, Request, Sampling

__all__ = ["Engine", "Failed", "Reader", "Reply", "Request", "Sampling"]
