"""What Steersman talks about: catalogues, states, records. Standard library and NumPy only."""
