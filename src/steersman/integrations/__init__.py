"""Outside systems that ask Steersman for decisions: one package each, each behind an extra."""
