"""The shader languages there are: the one place that knows their printers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploykit.compiler.codegen.shaders.wgsl.shader import WGSL

if TYPE_CHECKING:
    from deploykit.compiler.codegen.shaders.language import ShaderLanguage
    from deploykit.compiler.devices.gpu import Gpu

LANGUAGES = {language.name: language for language in (WGSL,)}
"""By name."""


def language_of(gpu: Gpu) -> ShaderLanguage:
    """What the shaders of a device are written in."""
    return LANGUAGES[gpu.language]
