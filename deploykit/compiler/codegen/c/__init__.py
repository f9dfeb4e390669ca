"""Prints TIR as portable C99: types and literals, names, expressions, statements, support functions."""
