"""Relax calling scheduled kernels -> `Program`.

ir.py          the `Program`
trace.py       Relax -> steps over tensors
inplace.py     which results take over their operand's memory
placement.py   lifetimes, outputs, capacities, the arena
arena.py       the symbolic planner
steps.py       walking steps; rewrite.py: changing them
listing.py     the program as text
picture.py     the memory plan as data that artifacts carry, and as a picture
"""
