"""Joins the shaders of a program to one text of OpenCL C.

Functions without tensors and sizes are the same in many shaders and are printed once. The others have the name of their
kernel in front of theirs. A shader with sections for some devices becomes a kernel with one form for each of them, of
which the preprocessor takes the first that fits:

    DK_F16            is defined if the device computes with 16-bit floats (cl_khr_fp16)
    DK_DOT            is defined if it has dot products of 8-bit integers (cl_khr_integer_dot_product or
                      cl_arm_integer_dot_product_int8)
    DK_BINDING_BYTES  is the most bytes of a tensor
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress, product

from deploykit.compiler.codegen.shaders.opencl.builtins import HELPERS, helpers
from deploykit.compiler.codegen.shaders.opencl.errors import Unprintable
from deploykit.compiler.codegen.shaders.opencl.functions import FunctionPrinter
from deploykit.compiler.codegen.shaders.opencl.uses import names_of, uses_of
from deploykit.compiler.codegen.shaders.opencl.words import WORDS, Names
from deploykit.compiler.codegen.shaders.sections import DOT_4X8, F16, SUBGROUPS, Section, Shader
from deploykit.compiler.codegen.shaders.wgsl.reading.parser import read
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import Block, Function, If, Return

_HEAD = """\
#ifdef DK_F16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
"""

MACROS = {F16: "DK_F16", DOT_4X8: "DK_DOT"}
"""The macros of features."""

Features = frozenset[str]

DEVICES = tuple(frozenset(compress(MACROS, has)) for has in product((True, False), repeat=len(MACROS)))
"""The kinds of devices, by the features in `MACROS` that they have."""


def opencl_program(shaders: Mapping[str, Shader]) -> str:
    """The text of these shaders, by the names of their kernels: a program in OpenCL C 1.2."""
    common = _Common()
    kernels = [_kernel(name, shader, common) for name, shader in shaders.items()]
    text = "\n".join([*common.texts(), *kernels])
    return "\n".join([_HEAD, *(HELPERS[name] for name in helpers(text)), text])


def opencl(name: str, text: str) -> str:
    """A program of one form of a shader, with a kernel of this name."""
    return opencl_program({name: Shader((Section(text),))})


class _Common:
    """The functions that kernels share, by their names, for each kind of device."""

    def __init__(self) -> None:
        self.found: dict[str, dict[Features, str]] = {}

    def take(self, name: str, text: str, devices: Sequence[Features]) -> bool:
        """Add a function, unless there is another one with this name."""
        known = self.found.setdefault(name, {})
        if any(known.get(device, text) != text for device in devices):
            return False
        known.update(dict.fromkeys(devices, text))
        return True

    def texts(self) -> Iterator[str]:
        """The functions, each after those that it calls."""
        done: set[str] = set()

        def after(name: str) -> Iterator[str]:
            if name in done:
                return
            done.add(name)
            for called in re.findall(r"\b\w+(?=\()", "".join(self.found[name].values())):
                if called in self.found:
                    yield from after(called)
            yield _chosen(self.found[name], tuple(MACROS))

        for name in self.found:
            yield from after(name)


def _chosen(texts: Mapping[Features, str], features: Sequence[str]) -> str:
    """The text for each kind of device, chosen by the macros of `features`; a text for which there is no need may be
    missing."""
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), "")
    feature, *others = features
    with_it = _chosen({device: text for device, text in texts.items() if feature in device}, others)
    without = _chosen({device: text for device, text in texts.items() if feature not in device}, others)
    if with_it in (without, ""):
        return without
    return f"#ifdef {MACROS[feature]}\n{with_it}" + (f"#else\n{without}" if without else "") + "#endif\n"


def _kernel(name: str, shader: Shader, common: _Common) -> str:
    """A kernel in its forms."""
    if name in WORDS:
        raise Unprintable(f"a kernel with the name {name}")
    features = {section.feature for section in shader.sections} - {"", SUBGROUPS}
    sizes = sorted(features - set(MACROS), key=int)
    asked = features & set(MACROS)
    kinds: dict[Features, list[Features]] = {}
    for device in DEVICES:
        kinds.setdefault(device & asked, []).append(device)
    forms: dict[int, dict[Features, str]] = {}
    for count in range(len(sizes), -1, -1):
        for has, devices in kinds.items():
            text = _form(name, shader.text({*sizes[:count], *has}), devices, common)
            forms.setdefault(count, {}).update(dict.fromkeys(devices, text))
    texts = [_chosen(forms[count], tuple(MACROS)) for count in forms]
    whole = texts.pop()
    for size, text in zip(sizes, reversed(texts), strict=True):
        whole = text if text == whole else f"#if DK_BINDING_BYTES >= {size}\n{text}#else\n{whole}#endif\n"
    return whole


def _unguarded(function: Function) -> Function:
    """The work of a team without the test that there is such a team, because the driver starts no other. Some compilers
    for CPUs make wrong code of barriers behind a `return`."""
    match function:
        case Function("work", body=Block((If(then=Block((Return(None),)), otherwise=Block(())), *others))):
            return replace(function, body=Block(tuple(others)))
    return function


def _form(name: str, text: str, devices: Sequence[Features], common: _Common) -> str:
    """The kernel of a form, after the functions that only it has."""
    module = read(text)
    module = replace(module, functions=tuple(map(_unguarded, module.functions)))
    names, uses, called = Names(names_of(module)), uses_of(module), dict[str, str]()
    printer = FunctionPrinter(module, names, uses, called)
    own = []
    for function in module.functions[:-1]:
        wanted = names.of(function.name)
        if uses[function.name].shared and common.take(wanted, printer.function(function, wanted), devices):
            called[function.name] = wanted
            continue
        called[function.name] = f"{name}_{function.name}"
        own.append(printer.function(function, called[function.name]))
    return "\n".join([*own, printer.kernel(name)])
