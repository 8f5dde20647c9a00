"""verl's trainer plays the games: an agent loop at whose tables its samples meet, an estimator that leaves advantages as they are."""
