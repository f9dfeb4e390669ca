"""Joins the shaders of a program to one text of OpenCL C.

Functions without tensors and sizes are the same in many shaders and are printed once. The others have the name of their
kernel in front of theirs. A shader with sections for some devices becomes a kernel with one form for each of them, of
which the preprocessor takes the first that fits:

    DK_F16            is defined if the device computes with 16-bit floats (cl_khr_fp16)
    DK_BINDING_BYTES  is the most bytes of a tensor
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from deploykit.compiler.codegen.shaders.opencl.builtins import HELPERS, helpers
from deploykit.compiler.codegen.shaders.opencl.errors import Unprintable
from deploykit.compiler.codegen.shaders.opencl.functions import FunctionPrinter
from deploykit.compiler.codegen.shaders.opencl.uses import names_of, uses_of
from deploykit.compiler.codegen.shaders.opencl.words import WORDS, Names
from deploykit.compiler.codegen.shaders.sections import F16, SUBGROUPS, Section, Shader
from deploykit.compiler.codegen.shaders.wgsl.reading.parser import read
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import Block, Function, If, Return

_HEAD = """\
#ifdef DK_F16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
"""

_ANY = (True, False)
"""The devices for which a function is: those with 16-bit floats, and those without."""


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
    """The functions that kernels share, by their names, for devices with 16-bit floats and for those without."""

    def __init__(self) -> None:
        self.found: dict[str, dict[bool, str]] = {}

    def take(self, name: str, text: str, devices: Sequence[bool]) -> bool:
        """Add a function, unless there is another one with this name."""
        known = self.found.setdefault(name, {})
        if any(known.get(has, text) != text for has in devices):
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
            yield self._text(name)

        for name in self.found:
            yield from after(name)

    def _text(self, name: str) -> str:
        halves, words = (self.found[name].get(has) for has in _ANY)
        if halves is None or halves == words:
            return words or ""
        return f"#ifdef DK_F16\n{halves}" + (f"#else\n{words}" if words else "") + "#endif\n"


def _kernel(name: str, shader: Shader, common: _Common) -> str:
    """A kernel in its forms."""
    if name in WORDS:
        raise Unprintable(f"a kernel with the name {name}")
    features = {section.feature for section in shader.sections} - {"", SUBGROUPS}
    sizes = sorted(features - {F16}, key=int)
    choices: list[tuple[str, str]] = []
    for half in _ANY if F16 in features else (False,):
        for count in range(len(sizes), -1, -1):
            held = sizes[:count]
            tests = [*["defined(DK_F16)"][:half], *(f"DK_BINDING_BYTES >= {size}" for size in held[-1:])]
            devices = (half,) if F16 in features else _ANY
            choices.append((" && ".join(tests), _form(name, shader.text({*held, *[F16][:half]}), devices, common)))
    if len({text for _, text in choices}) == 1:
        return choices[0][1]
    words = ["#if", *["#elif"] * (len(choices) - 2)]
    chosen = "".join(f"{word} {test}\n{text}" for word, (test, text) in zip(words, choices, strict=False))
    return f"{chosen}#else\n{choices[-1][1]}#endif\n"


def _unguarded(function: Function) -> Function:
    """The work of a team without the test that there is such a team, because the driver starts no other. Some compilers
    for CPUs make wrong code of barriers behind a `return`."""
    match function:
        case Function("work", body=Block((If(then=Block((Return(None),)), otherwise=Block(())), *others))):
            return replace(function, body=Block(tuple(others)))
    return function


def _form(name: str, text: str, devices: Sequence[bool], common: _Common) -> str:
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
