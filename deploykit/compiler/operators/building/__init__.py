"""The tools to write operators with: the builder, values, index arithmetic, broadcasting, windows, loops."""
