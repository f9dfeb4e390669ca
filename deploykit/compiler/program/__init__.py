"""Turns Relax functions that call scheduled kernels into a `Program`.

ir.py            the `Program`
trace.py         Relax -> steps over tensors
overwriting.py   which inputs of a kernel its result may be written over
inplace.py       which results take over their operand's memory
placement.py     lifetimes, outputs, capacities, the arena
arena.py         the symbolic planner; packing.py: offsets at given sizes; fronts.py: maxima of polynomials
residence.py     transfers between the host and a GPU
assembly.py      puts the functions of a model together into a program
variants.py      the programs of one model for several devices
steps.py         walking steps; rewrite.py: changing them
listing.py       the program as text; plan.py: its memory plan as data that artifacts carry
"""
