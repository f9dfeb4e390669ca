"""Chains of kernels that run strip by strip, so that fewer bytes are alive at once: `--optimize memory`.

`rows` makes kernels for single rows, `timetable` says which rows are computed when, `emitting` makes steps of that, and
`choice` finds the chains that are worth it.
"""
