"""The small model and the documents of the first run: fetched, checked, and kept in a cache."""
