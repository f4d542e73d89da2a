"""One module per verb; each owns its transaction. Nothing is imported here, so that one verb never loads another."""
