"""Schedules for GPUs: a kernel as compute shaders (`divide`).

A shader has one parallel loop; each invocation, or each team of invocations, runs an iteration of it. Stages wait for
each other, so a kernel with several becomes several shaders, with its temporaries as tensors between them, but for rows
that a team computes from their beginning to their end.
"""

from deploykit.compiler.devices.gpu import WEBGPU, Gpu
from deploykit.compiler.schedules.gpu.divide import Divided, Part, divide

__all__ = ["WEBGPU", "Divided", "Gpu", "Part", "divide"]
