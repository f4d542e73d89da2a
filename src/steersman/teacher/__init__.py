"""Teacher rows: read them strictly, merge them without surprises, keep them as columns."""
