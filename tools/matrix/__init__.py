"""The cross-compile matrix."""
