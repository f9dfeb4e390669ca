"""The interface of a shader language to the rest of the compiler: it prints a lowered kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deploykit.compiler.codegen.shaders.sections import Shader
    from deploykit.compiler.devices.gpu import Gpu
    from deploykit.compiler.lowering.kernel import Kernel


@dataclass(frozen=True)
class Sharing:
    """Where the operands of a launch lie. `groups[i]` is the number of the memory of operand `i`; `written[g]` says
    whether memory `g` is or may be written to during the launch. `parts[g]` are the bytes of each binding of memory
    `g`, if it has several; the last may be smaller than the others. A device that binds `whole[g]` bytes at once binds
    all of that memory to the first."""

    groups: tuple[int, ...]
    written: tuple[bool, ...]
    parts: tuple[tuple[int, ...], ...]
    whole: tuple[int, ...]

    @staticmethod
    def apart(count: int) -> Sharing:
        """`count` operands, each in memory of its own that is written to."""
        return Sharing(tuple(range(count)), (True,) * count, ((),) * count, (0,) * count)


@dataclass(frozen=True)
class ShaderLanguage:
    """A shader language. `name` is the one in `Gpu.language`. `emit` prints a kernel's shader for a device, with
    operands that share memory as `Sharing` says. It raises `NoShader` for what the language cannot express.
    """

    name: str
    emit: Callable[[Kernel, Sharing, Gpu], Shader]
