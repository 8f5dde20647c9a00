"""The games in TRL's GRPOTrainer: what is played, the settings that are refused, and the trainer itself."""
