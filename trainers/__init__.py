"""Learning from games. Trainers share the functions in this folder and never import each other."""
