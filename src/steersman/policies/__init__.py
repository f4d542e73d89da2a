"""Policies: from a state and a feasible mask to action values and exact probabilities."""
