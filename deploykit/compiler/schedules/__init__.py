"""Schedules: from a fused kernel to loops that suit a device.

`schedule(func, device)` takes a PrimFunc as fusion leaves it (TE blocks in sequence) and gives one with the same
parameters whose body is plain loops: some `vectorized` with constant extents, at most one outermost loop `parallel`,
local buffers of constant size, temporaries of any size at the top. The steps:

1. read the stages (`kernel.stages`); imperative kernels keep their order, but the sums of a loop are made to fit the
   registers (`registers`),
2. inline pointwise stages into their readers (`inline`), and the rest into the reductions before them (`epilogue`),
3. give every stage to the rules in `RULES`, in order, until one takes it (`fallback` takes all that is left).

A rule is a function `(stage, views, device) -> statements | reason`, one family per module.
"""

from __future__ import annotations

from deploykit.compiler.devices.cpu import DEVICES, Device
from deploykit.compiler.schedules.driver import explain, schedule, schedule_explained

__all__ = ["DEVICES", "Device", "explain", "schedule", "schedule_explained"]
