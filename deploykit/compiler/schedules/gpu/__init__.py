"""Schedules for GPUs: a kernel as one compute shader a stage (`divide`).

A shader has one parallel loop; each invocation runs an iteration of it. Stages wait for each other, so a kernel with
several becomes several shaders, with its temporaries as tensors between them.
"""

from deploykit.compiler.schedules.gpu.divide import Divided, Part, divide
from deploykit.compiler.schedules.gpu.limits import WEBGPU, Gpu

__all__ = ["WEBGPU", "Divided", "Gpu", "Part", "divide"]
