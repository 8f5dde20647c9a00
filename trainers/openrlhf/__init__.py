"""OpenRLHF's trainer plays the games: an executor for its vLLM engines, a director for the schedule, and a launcher."""
