"""What operators are written with: the builder, values, index arithmetic, shapes that broadcast, windows, loops."""
