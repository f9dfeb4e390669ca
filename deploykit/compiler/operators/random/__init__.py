"""Random numbers that depend on a seed and a position only."""
