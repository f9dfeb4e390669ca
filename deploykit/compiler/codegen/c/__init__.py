"""TIR as portable C99 text: types and literals, names, expressions, statements, support functions."""
