"""Measurements of what training changed and of what it costs."""

import os

# Read when torch is loaded: threads that wait then give way to other work instead of spinning. A user's own value stays.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
