"""Runs a model in a process of its own that stops at the first invalid memory access or undefined behaviour.

It is slow. Objects without C source are linked as they are, without instrumentation.
"""

from __future__ import annotations

from deploykit.basics.toolchain import find_c_compiler
from deploykit.engines.native.process import Build

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")

_ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def sanitized() -> Build:
    """A build with this machine's C compiler, which must have sanitizers. Raises `ToolchainError` if there is none."""
    return Build(find_c_compiler(), SANITIZERS, environment=_ENVIRONMENT)
