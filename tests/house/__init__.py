"""The house around the code is tested too: rules, gates, docs and the test databases."""
