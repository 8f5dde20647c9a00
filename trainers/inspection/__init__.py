"""``spyrl inspect``: runs of every trainer as a table, a page, and warnings; without a model."""
