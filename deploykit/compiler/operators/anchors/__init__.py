"""Anchors: the operators that carry a model's arithmetic, as TE with one reduction block each.

An anchor's block has the annotation `deploykit.anchor`, naming the rule that schedules it. What follows it in the same
kernel (bias, activation, residual) becomes its epilogue.
"""
