"""``spyrl eval``: whether a trained model is better, on the published tasks and by named protocols."""
