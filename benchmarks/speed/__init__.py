"""How fast an update and a rollout are, and a check of a GPU."""
