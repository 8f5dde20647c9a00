"""The single-machine trainer: play, score, update, in the order in which one reads it. Start at ``loop.py``."""
