"""Random numbers that depend only on a seed and a position."""
