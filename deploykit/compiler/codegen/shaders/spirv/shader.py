"""Translates a shader from WGSL to SPIR-V 1.3, for Vulkan 1.1.

The uniform at binding 0, the scalars of a kernel, becomes push constants. The other bindings are storage buffers of
descriptor set 0. An array of `f16` needs `storageBuffer16BitAccess`, and arithmetic of `f16` `shaderFloat16`. Functions
of subgroups need those features of subgroups in compute shaders.

Buffers that are written are coherent: otherwise a driver (NVIDIA 580) takes loads of what the same invocation stores
out of loops.

A load that a `select` does not choose may lie outside a binding, so devices are opened with `robustBufferAccess`. A
shader for subgroups takes them for full: the sizes that it reads must be those with which it runs.
"""

from __future__ import annotations

from deploykit.compiler.codegen.shaders.spirv.functions import FunctionWriter
from deploykit.compiler.codegen.shaders.spirv.module import STORAGE, ModuleBuilder
from deploykit.compiler.codegen.shaders.spirv.numbers import (
    BUILT_INS,
    SUBGROUP_BUILT_INS,
    Capability,
    Decoration,
    StorageClass,
)
from deploykit.compiler.codegen.shaders.wgsl.reading.parser import read
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import Module, Parameter, Variable
from deploykit.compiler.codegen.shaders.wgsl.reading.types import F16, Array, element_of


def spirv(text: str) -> bytes:
    """The SPIR-V of a shader's WGSL text. Raises `ValueError` for what the printer of WGSL does not emit."""
    return translated(read(text))


def translated(shader: Module) -> bytes:
    """The SPIR-V of a shader."""
    module = ModuleBuilder()
    variables = {variable.name: _variable(module, variable) for variable in shader.variables}
    functions: dict[str, int] = {}
    *others, entry = shader.functions
    for function in others:
        functions[function.name] = FunctionWriter(module, functions, variables).function(function)
    inputs = {parameter.name: _input(module, parameter) for parameter in entry.parameters}
    main = FunctionWriter(module, functions, variables).function(entry, inputs)
    if "f16" in shader.enabled and Capability.STORAGE_BUFFER_16BIT not in module.capabilities:
        module.capabilities.add(Capability.FLOAT16)
    return module.binary(main, entry.name, inputs.values(), entry.workgroup)


def _variable(module: ModuleBuilder, variable: Variable) -> int:
    storage = STORAGE[variable.space]
    if variable.binding is None:
        return module.variable(storage, module.type(variable.type))
    found = module.variable(storage, module.block(variable.type))
    if storage == StorageClass.PUSH_CONSTANT:
        return found
    module.decorate(found, Decoration.DESCRIPTOR_SET, 0)
    module.decorate(found, Decoration.BINDING, variable.binding)
    if variable.access == "read":
        module.decorate(found, Decoration.NON_WRITABLE)
    elif storage == StorageClass.STORAGE_BUFFER:
        module.decorate(found, Decoration.COHERENT)
    if isinstance(variable.type, Array) and element_of(variable.type.element) is F16:
        module.capabilities.add(Capability.STORAGE_BUFFER_16BIT)
    return found


def _input(module: ModuleBuilder, parameter: Parameter) -> int:
    found = module.variable(StorageClass.INPUT, module.type(parameter.type))
    module.decorate(found, Decoration.BUILT_IN, BUILT_INS[parameter.builtin])
    if parameter.builtin in SUBGROUP_BUILT_INS:
        module.capabilities.add(Capability.GROUP_NON_UNIFORM)
    return found
