"""verl's trainer plays the games: an agent loop in which a prompt's samples meet, an estimator that leaves advantages as they are."""
