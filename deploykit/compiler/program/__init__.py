"""Relax calling scheduled kernels -> `Program`.

    ir.py          the `Program`
    trace.py       Relax -> steps over tensors
    inplace.py     which results take over their operand's memory
    placement.py   lifetimes, outputs, capacities, the arena
    arena.py       the symbolic planner
    steps.py       walking steps; rewrite.py: changing them
    picture.py     the memory plan as a picture
"""
