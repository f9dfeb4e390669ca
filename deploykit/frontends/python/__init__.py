"""Imports dynamic models written in Python: `models.py:TreeLSTM`.

The source is read as a syntax tree; nothing of it is executed. All faults are reported at once, with their places.

    source        the text, and the faults found in it
    declarations  classes, unions, weights, functions and numbers of a module
    annotations   annotations as types
    values        what names and expressions stand for while a function is read
    functions     a function as control flow: one `ControlFunction` for each combination of types that calls have
    statements, expressions, loops   how a function is read

What control flow and tensor expressions become is in `deploykit.compiler.batching`.
"""
