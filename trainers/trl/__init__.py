"""The same games in TRL's GRPOTrainer: what is played, the rows that TRL gets, and the trainer itself."""
