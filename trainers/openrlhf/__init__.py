"""OpenRLHF's trainer plays the games: an executor for its vLLM engines, a coordinator for the schedule, and a launcher."""
