"""Running a model in a process of its own, instrumented to stop at the first read or write outside its memory and at
undefined behaviour. Slow; objects without C source are linked as they are.
"""

from __future__ import annotations

from deploykit.engines.native.process import Build
from deploykit.toolchain import find_c_compiler

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")

_ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def sanitized() -> Build:
    """With this machine's compiler, which must have sanitizers. Raises `ToolchainError` when there is none."""
    return Build(find_c_compiler(), SANITIZERS, environment=_ENVIRONMENT)
