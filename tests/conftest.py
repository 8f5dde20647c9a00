"""Settings of all tests, before any of them imports torch."""

import os

# Threads gain nothing on models this small, and on a busy machine they wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
