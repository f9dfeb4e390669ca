"""Schedules for GPUs: a kernel as compute shaders (`divide`).

A shader has one parallel loop, and each invocation or team of invocations runs one iteration of it. Stages wait for
each other, so a kernel with several stages becomes several shaders, with its temporaries as tensors between them. The
exception is stages over the same rows: a team computes each row from beginning to end.
"""

from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.schedules.gpu.divide import divide
from deploykit.compiler.schedules.gpu.parts import Divided, Part

__all__ = ["Divided", "Gpu", "Part", "divide"]
