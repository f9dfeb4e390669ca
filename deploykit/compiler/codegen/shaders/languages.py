"""The list of shader languages: the only place that knows their printers.

Kernels are printed in WGSL. `spirv` and `opencl_program` translate that for the drivers of native machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploykit.compiler.codegen.shaders.opencl.program import opencl_program
from deploykit.compiler.codegen.shaders.spirv.packing import pack
from deploykit.compiler.codegen.shaders.spirv.shader import spirv
from deploykit.compiler.codegen.shaders.wgsl.shader import WGSL

if TYPE_CHECKING:
    from deploykit.compiler.codegen.shaders.language import ShaderLanguage
    from deploykit.compiler.devices.gpu import Gpu

__all__ = ["LANGUAGES", "language_of", "opencl_program", "pack", "spirv"]

LANGUAGES = {language.name: language for language in (WGSL,)}
"""The languages by name."""


def language_of(gpu: Gpu) -> ShaderLanguage:
    """The language of a device's shaders."""
    return LANGUAGES[gpu.language]
