"""Schedules: turn a fused kernel into loops that suit a device.

`schedule(func, device)` takes a PrimFunc as fusion leaves it (TE blocks in sequence). It returns one with the same
parameters whose body is plain loops: some `vectorized` with constant extents, and at most one outermost `parallel`
loop. Local buffers have constant size; temporaries at the top may have any size. The steps are:

1. read the stages (`kernel.stages`). Imperative kernels keep their order, except that loops over sums are divided so
   that the sums fit the registers (`registers`);
2. inline pointwise stages into their readers (`inline`), and the remaining ones into the reductions before them
   (`epilogue`);
3. offer every stage to the rules in `RULES`, in order, until one takes it. `fallback` takes all stages that remain.

A rule is a function `(stage, views, device) -> statements | reason`, with one family of rules per module.
"""

from __future__ import annotations

from deploykit.compiler.devices.cpu import DEVICES, Device
from deploykit.compiler.schedules.driver import explain, schedule, schedule_explained

__all__ = ["DEVICES", "Device", "explain", "schedule", "schedule_explained"]
