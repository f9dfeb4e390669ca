"""The kernels of a program for the GPUs of native machines (`runtime/include/gpu.h`).

kernels.spv         the kernels for Vulkan: modules of SPIR-V, one after the other, packed (`shaders.spirv.packing`)
kernels.cl          the kernels for OpenCL, as one source
<prefix>_kernels.h, <prefix>_kernels.c    the tables that say what each kernel takes, and where its code is

A kernel has a form for each set of features that its text asks for (`shaders.sections`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any

from tvm.ir import PointerType

from deploykit.artifact.devices import CODE
from deploykit.basics.parallel import each
from deploykit.compiler.codegen.c.uses import written_buffers
from deploykit.compiler.codegen.host.identifiers import c_string
from deploykit.compiler.codegen.host.lines import in_comment, render
from deploykit.compiler.codegen.host.scope import prefix_of
from deploykit.compiler.codegen.shaders.bindings import emit_shaders, shaders_of
from deploykit.compiler.codegen.shaders.languages import opencl_program, pack, spirv
from deploykit.compiler.codegen.shaders.sections import DOT_4X8, F16, SUBGROUPS, Shader
from deploykit.compiler.codegen.weights.blob import by_offset, weights_bytes

if TYPE_CHECKING:
    from deploykit.compiler.codegen.shaders.language import Sharing
    from deploykit.compiler.lowering.kernel import Kernel
    from deploykit.compiler.program.ir import Program

NEEDS = {F16: "DK_GPU_F16", SUBGROUPS: "DK_GPU_SUBGROUPS", DOT_4X8: "DK_GPU_DOT"}
"""The bits for features of devices."""


@dataclass(frozen=True)
class Form:
    """A form of a kernel for devices that have the features `needs` and bind `binding_bytes` at once: its code is at
    bytes `offset` to `offset + size` of all code."""

    needs: tuple[str, ...]
    binding_bytes: int
    offset: int
    size: int


def emit_kernels(program: Program, drivers: Sequence[str], version: str, first_weight: int) -> dict[str, bytes]:
    """The files of a program's kernels for some drivers. Its weights begin at byte `first_weight` of weights.bin."""
    assert program.gpu is not None, "a program for CPUs has no kernels for GPUs"
    prefix = prefix_of(program)
    names = [f"{program.kernels[kernel].name}_{number}" for (kernel, _), number in shaders_of(program).items()]
    shaders = dict(zip(names, emit_shaders(program), strict=True))
    files: dict[str, bytes] = {}
    tables = []
    for driver in drivers:
        parts, forms = _FORMS[driver](shaders)
        code = b"".join(parts)
        files[CODE[driver]] = packed = pack(parts) if driver == "vulkan" else code
        table = _table(program, driver, code, names, forms)
        tables.append(table | {"packed_bytes": len(packed) if packed is not code else 0})
    starts = tuple(_starts(program))
    view: dict[str, Any] = {"name": in_comment(program.name), "version": version, "prefix": prefix, "starts": starts}
    view |= {"macro": prefix.upper(), "tables": tables, "first_weight": first_weight, "gpu": program.gpu}
    view |= {"weights_bytes": weights_bytes(program)}
    for end in ("h", "c"):
        files[f"{prefix}_kernels.{end}"] = render(f"gpu.{end}.j2", view).encode()
    return files


def _spirv_forms(shaders: Mapping[str, Shader]) -> tuple[list[bytes], dict[str, list[Form]]]:
    """One module for each form. Forms with equal modules share one."""
    asked = [(name, features) for name, shader in shaders.items() for features in _features(shader)]
    modules = each(lambda form: spirv(shaders[form[0]].text(form[1])), asked)
    places: dict[bytes, int] = {}
    size = 0
    forms: dict[str, list[Form]] = {}
    for (name, features), module in zip(asked, modules, strict=True):
        if module not in places:
            places[module] = size
            size += len(module)
        forms.setdefault(name, []).append(_form(features, places[module], len(module)))
    return list(places), forms


def _opencl_forms(shaders: Mapping[str, Shader]) -> tuple[list[bytes], dict[str, list[Form]]]:
    """One text for all kernels, which takes its forms when the device's driver builds it."""
    code = opencl_program(shaders).encode()
    return [code], {name: [Form((), 0, 0, len(code))] for name in shaders}


_FORMS: dict[str, Callable[[Mapping[str, Shader]], tuple[list[bytes], dict[str, list[Form]]]]] = {
    "vulkan": _spirv_forms,
    "opencl": _opencl_forms,
}


def _features(shader: Shader) -> Iterator[tuple[str, ...]]:
    """The sets of features that a shader has forms for, the largest first."""
    asked = sorted({section.feature for section in shader.sections if section.feature}, key=str.isdecimal)
    for has in product((True, False), repeat=len(asked)):
        yield tuple(feature for feature, present in zip(asked, has, strict=True) if present)


def _form(features: Sequence[str], offset: int, size: int) -> Form:
    sizes = [int(feature) for feature in features if feature.isdecimal()]
    return Form(tuple(NEEDS[feature] for feature in features if feature in NEEDS), max(sizes, default=0), offset, size)


def _table(
    program: Program, driver: str, code: bytes, names: Sequence[str], forms: Mapping[str, Sequence[Form]]
) -> dict[str, Any]:
    """What the templates say of the kernels for one driver."""
    counts = [len(forms[name]) for name in names]
    firsts = accumulate(counts, initial=0)
    kernels = [
        _kernel(program.kernels[kernel], sharing) | {"name": c_string(name), "first": first, "count": count}
        for (kernel, sharing), name, first, count in zip(shaders_of(program), names, firsts, counts, strict=False)
    ]
    return {
        "driver": driver,
        "file": CODE[driver],
        "kernels": kernels,
        "forms": [form for name in names for form in forms[name]],
        "code_bytes": len(code),
        "code_hash": code_hash(code),
    }


def code_hash(data: bytes) -> int:
    """`dk_hash` from 0 on (`runtime/gpu/work.h`)."""
    found = 0
    for (word,) in struct.iter_unpack("<Q", data + bytes(-len(data) % 8)):
        found = (found ^ word) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        found ^= found >> 29
    return found


def _kernel(kernel: Kernel, sharing: Sharing) -> dict[str, Any]:
    """The bindings of a kernel, and the numbers that it takes."""
    written = written_buffers(kernel.func.body)
    pointers = [param for param in kernel.func.params if isinstance(param.ty, PointerType)]
    scalars = len(kernel.func.params) - len(pointers)
    stored = {group for pointer, group in zip(pointers, sharing.groups, strict=True) if pointer in written}
    bindings = [group for group, parts in enumerate(sharing.parts) for _ in parts or (0,)]
    return {
        "bindings": len(bindings),
        "words": scalars - 1 if kernel.parallel_extent is not None else scalars + 1,
        "written": sum(1 << binding for binding, group in enumerate(bindings) if group in stored),
        "team": int(kernel.team),
    }


def _starts(program: Program) -> Iterator[int]:
    """The bytes at which the weights may be divided: where constants begin, and, negative, parts of the large ones."""
    assert program.gpu is not None
    yield 0
    for first, end in ((constant.offset, constant.offset + constant.data.nbytes) for constant in by_offset(program)):
        if first:
            yield first
        yield from (-part for part in range(first, end, program.gpu.binding_bytes) if part > first)
