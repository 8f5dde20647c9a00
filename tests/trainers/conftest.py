"""Settings of the tests with models."""

import os

# Before torch is imported: threads gain nothing on models this small, and on a busy machine they wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
