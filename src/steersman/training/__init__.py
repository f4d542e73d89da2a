"""Fitting policies to teacher rows, and the evidence that a fit is worth using. PyTorch lives here only."""
