"""Saved games as text and as a page, and their rewards under other rules."""
