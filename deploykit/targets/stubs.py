"""Shared libraries with empty functions, for a linker in the place of those that a system has at run time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import Compiler

_FLOATS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax fmin
fmod hypot ldexp lgamma log log10 log1p log2 lrint nearbyint pow remainder rint round scalbn sin sinh sqrt tan tanh
tgamma trunc
"""

MATHEMATICS = tuple(f"{name}{suffix}" for name in _FLOATS.split() for suffix in ("", "f"))
"""The functions of <math.h> that kernels and host code may call."""

LOADER = ("dlopen", "dlsym", "dlclose", "dlerror")
"""The functions of <dlfcn.h> that drivers of GPUs call."""


@cache
def stub(
    compiler: Compiler, file: str, functions: Sequence[str], options: Sequence[str] = (), version: str = ""
) -> bytes:
    """A library with the name `file` and these functions, which have a version if one is given."""
    with Scratch() as place:
        source, made, library, script = (Path(place) / name for name in ("stub.c", "stub.o", file, "versions"))
        source.write_text("".join(f"void {function}(void);\nvoid {function}(void) {{}}\n" for function in functions))
        script.write_text(f"{version} {{ global: *; }};\n")
        compiler.compile(source, made, "-fPIC", "-g0", "-fno-builtin", *options)
        versioned = (f"-Wl,--version-script={script}",) if version else ()
        compiler.link_alone([made], library, f"-Wl,-soname,{file}", *versioned)
        return library.read_bytes()
