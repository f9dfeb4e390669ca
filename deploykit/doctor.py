"""Which tools are installed: each with its version, what it is for, and how to install it.

A requirement is met by any one of its tools: any C compiler will do. An optional tool is needed only by the command
that its purpose names.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from deploykit.engines.native.bionic import C_LIBRARIES, has_c_library
from deploykit.errors import UsageError

_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Tool:
    """A program or package that deploykit uses. `probe` gives its version and place, or None when it is not installed.

    At least one of the tools with the same `requirement` must be found; a tool without a requirement is optional.
    """

    name: str
    purpose: str
    install: str
    probe: Callable[[], tuple[str, str] | None]
    requirement: str | None = None


@dataclass(frozen=True)
class Finding:
    name: str
    found: bool
    version: str | None
    path: str | None
    purpose: str
    install: str
    requirement: str | None


@dataclass(frozen=True)
class Diagnosis:
    findings: tuple[Finding, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The requirements that none of the tools found meets."""
        met = {f.requirement for f in self.findings if f.found}
        return tuple(dict.fromkeys(f.requirement for f in self.findings if f.requirement and f.requirement not in met))


def diagnose(tools: Iterable[Tool] | None = None) -> Diagnosis:
    """Look for every tool."""
    return Diagnosis(tuple(_find(tool) for tool in (TOOLS if tools is None else tools)))


def app_tools() -> tuple[Tool, ...]:
    """The tools of the sample app for Android, which is beside this package in its repository. Raises `UsageError`
    outside of that."""
    root = str(Path(__file__).parents[1])
    sys.path.append(root)
    try:
        found: tuple[Tool, ...] = importlib.import_module("apps.android.steps.tools").TOOLS
    except ModuleNotFoundError as error:
        raise UsageError("the sample app is in the repository of deploykit: call doctor --app in a clone") from error
    finally:
        sys.path.remove(root)
    return found


def _find(tool: Tool) -> Finding:
    version, path = tool.probe() or (None, None)
    return Finding(tool.name, path is not None, version, path, tool.purpose, tool.install, tool.requirement)


def python_package(name: str) -> Callable[[], tuple[str, str] | None]:
    """A probe for an installed Python distribution."""

    def probe() -> tuple[str, str] | None:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            return None
        return distribution.version, f"Python package {name}"

    return probe


def program(*command: str, version_flag: str = "--version") -> Callable[[], tuple[str, str] | None]:
    """A probe for a program that answers `version_flag`."""

    def probe() -> tuple[str, str] | None:
        path = shutil.which(command[0])
        if path is None:
            return None
        try:
            call = [path, *command[1:], version_flag]
            answer = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if answer.returncode != 0:
            return None
        match = _VERSION.search(answer.stdout or answer.stderr)
        return (match.group() if match else "unknown"), path

    return probe


def emulator(machine: str) -> Callable[[], tuple[str, str] | None]:
    """A probe for QEMU for a machine, which runs nothing without a C library for it."""
    probe = program(f"qemu-{machine}")
    return lambda: probe() if has_c_library(machine) else None


def _python() -> tuple[str, str]:
    return platform.python_version(), sys.executable


_COMPILER = "a C compiler"

TOOLS = (
    Tool("Python", "runs deploykit", "https://www.python.org", _python, "Python"),
    Tool("apache-tvm", "compiler", "pip install 'apache-tvm==0.27.*'", python_package("apache-tvm"), "apache-tvm"),
    Tool("onnx", "ONNX models", "pip install onnx", python_package("onnx"), "onnx"),
    Tool("onnx-ir", "ONNX models", "pip install onnx-ir", python_package("onnx-ir"), "onnx-ir"),
    Tool("gcc", "compiles artifacts", "apt-get install gcc libc6-dev", program("gcc"), _COMPILER),
    Tool("clang", "compiles artifacts", "apt-get install clang", program("clang"), _COMPILER),
    Tool("zig", "compiles artifacts where there is no other C compiler", "pip install ziglang",
         program(sys.executable, "-m", "ziglang", version_flag="version"), _COMPILER),
    Tool("make", "builds an embedded artifact with its Makefile", "apt-get install make", program("make")),
    Tool("cmake", "builds an embedded artifact with its CMake file", "apt-get install cmake", program("cmake")),
    *(Tool(f"qemu-{machine}", f"runs artifacts for {meant}", f"apt-get install qemu-user {C_LIBRARIES[machine]}",
           emulator(machine)) for machine, meant in (("aarch64", "arm64 on other machines"), ("arm", "32-bit Arm"))),
    *(Tool(f"{prefix}-gcc", f"compiles artifacts for boards with {meant}",
           f"apt-get install gcc-{prefix} picolibc-{prefix}", program(f"{prefix}-gcc"))
      for prefix, meant in (("arm-none-eabi", "Arm cores"), ("riscv64-unknown-elf", "RISC-V cores"))),
    *(Tool(f"qemu-system-{machine}", f"runs artifacts for boards with {meant}", f"apt-get install {package}",
           program(f"qemu-system-{machine}"))
      for machine, meant, package in (("arm", "Arm cores", "qemu-system-arm"),
                                      ("riscv32", "RISC-V cores", "qemu-system-misc"))),
    Tool("javac", "compiles the Java classes of an AAR", "apt-get install default-jdk-headless", program("javac")),
    Tool("node", "runs artifacts for the web", "apt-get install nodejs", program("node")),
    Tool("onnxruntime", "reference of `verify`, peer of `bench`", "pip install onnxruntime",
         python_package("onnxruntime")),
)  # fmt: skip
