"""Chains of kernels that run strip by strip, so that fewer bytes are alive at once: `--optimize memory`.

`rows` makes kernels for single rows, `sums` those of reductions over all rows. `timetable` says which rows are computed
when, `emitting` makes steps of that, `choice` finds the chains that are worth it, and `compiling` puts it together.
"""
