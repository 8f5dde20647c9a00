"""``spyrl inspect``: what runs left, as a table, a page, and warnings. Reads what every trainer writes; needs no model."""
