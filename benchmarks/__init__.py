"""Measurements of what training changed and of what it costs."""
