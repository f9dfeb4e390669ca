"""Anchors: the operators that do most of a model's arithmetic, as tensor expressions with one reduction block each.

An anchor's block has the annotation `deploykit.anchor`, which names the rule that schedules it. Stages that follow it
in the same kernel (bias, activation, residual) become its epilogue.
"""
