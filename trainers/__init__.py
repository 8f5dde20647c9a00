"""Learning from games. Trainers share the functions in this folder and never import each other."""

import os

# Read when torch is loaded: threads that wait then give way to other work instead of spinning. A user's own value stays.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
