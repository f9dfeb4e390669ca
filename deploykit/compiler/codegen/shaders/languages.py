"""The list of shader languages: the only place that knows their printers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploykit.compiler.codegen.shaders.wgsl.shader import WGSL

if TYPE_CHECKING:
    from deploykit.compiler.codegen.shaders.language import ShaderLanguage
    from deploykit.compiler.devices.gpu import Gpu

LANGUAGES = {language.name: language for language in (WGSL,)}
"""The languages by name."""


def language_of(gpu: Gpu) -> ShaderLanguage:
    """The language of a device's shaders."""
    return LANGUAGES[gpu.language]
