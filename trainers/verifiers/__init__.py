"""An environment for verifiers: the seats of a game are agents, and each of their replies is a trace with its own reward."""
