"""What a shader language is to the rest of the compiler: it prints a lowered kernel."""

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
    """Where the operands of a launch lie: `groups[i]` is the number of operand `i`'s memory, and `written[g]` whether
    memory `g` may be written to by this launch or lies in memory that may. `parts[g]` are the bytes of each of its
    bindings where it has several: the last one may have fewer."""

    groups: tuple[int, ...]
    written: tuple[bool, ...]
    parts: tuple[tuple[int, ...], ...]

    @staticmethod
    def apart(count: int) -> Sharing:
        """Each of so many operands in memory of its own, which is written to."""
        return Sharing(tuple(range(count)), (True,) * count, ((),) * count)


@dataclass(frozen=True)
class ShaderLanguage:
    """`name` is that in `Gpu.language`. `emit` gives a kernel's shader for a device, its operands as `Sharing` says. It
    raises `NoShader` for what the language cannot express; its words, types and functions are the printer's affair.
    """

    name: str
    emit: Callable[[Kernel, Sharing, Gpu], Shader]
