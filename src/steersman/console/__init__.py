"""How records look: as JSON for machines and as Rich tables for people."""
