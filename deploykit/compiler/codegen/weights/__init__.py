"""Writes the constants of a program, as one blob of bytes or as C source."""
