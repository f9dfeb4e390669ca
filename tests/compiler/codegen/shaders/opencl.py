"""Runs models for GPUs with the driver for OpenCL: its sources as a library, and its interface in ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from ctypes import POINTER, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tvm import ir

from deploykit import runtime
from deploykit.compiler.codegen.host.gpu import code_hash
from deploykit.compiler.codegen.shaders.bindings import shaders_of
from deploykit.compiler.codegen.shaders.opencl.program import opencl_program
from deploykit.compiler.codegen.shaders.opencl.uses import scalars_of
from deploykit.compiler.codegen.shaders.sections import Shader
from deploykit.compiler.codegen.shaders.wgsl.reading.parser import read
from deploykit.compiler.lowering.kernel import Kernel
from deploykit.compiler.program.inplace import InPlace
from deploykit.targets.webgpu.devices import WEBGPU
from tests.compiler.codegen.shaders.harness import Shaders, program_of
from tests.compiler.schedules.harness import evaluate

AVAILABLE = find_library("OpenCL") is not None
DRIVER_TESTS = Path(__file__).parents[3] / "driver"
FIRST_BUFFER = 3
GUARD = "DK_GUARD"
"""Set in the environment: buffers lie beside memory that kernels must not touch (`forwarding.c`)."""


class Slice(ctypes.Structure):
    _fields_ = (("buffer", c_int32), ("name", c_char_p), ("offset", c_int64), ("bytes", c_int64))


_OF_SLICES = (c_void_p, c_int32, POINTER(Slice), c_int32, POINTER(c_int32), c_int32, c_int32)


class Driver(ctypes.Structure):
    _fields_ = (
        ("binding_bytes", c_int64),
        ("error", c_char_p),
        ("dispatch", ctypes.CFUNCTYPE(c_int32, *_OF_SLICES)),
        ("copy", ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(Slice), c_int64, POINTER(Slice))),
        ("upload", ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(Slice), c_char_p)),
        ("download", ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, POINTER(Slice))),
        ("wait", ctypes.CFUNCTYPE(c_int32, c_void_p)),
        ("restart", ctypes.CFUNCTYPE(c_int32, c_void_p)),
        ("provide", ctypes.CFUNCTYPE(c_int32, c_void_p, c_int32, c_int64)),
        ("kept", c_void_p),
        ("uploaded", c_int64),
        ("downloaded", c_int64),
    )


class Adapter(ctypes.Structure):
    _fields_ = (
        ("name", c_char * 128),
        ("driver", c_char * 128),
        ("kind", c_int32),
        ("features", c_uint32),
        ("subgroup", c_int32),
        ("memory_bytes", c_int64),
        ("buffer_bytes", c_int64),
        ("binding_bytes", c_int64),
        ("unusable", c_char_p),
    )


class Options(ctypes.Structure):
    _fields_ = (
        ("library", c_char_p),
        ("cache", c_char_p),
        ("adapter", c_int32),
        ("without", c_uint32),
        ("buffer_bytes", c_int64),
        ("binding_bytes", c_int64),
    )


class Gpu(ctypes.Structure):
    _fields_ = (
        ("driver", Driver),
        ("adapter", Adapter),
        ("load", ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p)),
        ("clear", ctypes.CFUNCTYPE(c_int32, c_void_p, c_int32, c_int64)),
        ("keep", c_void_p),
        ("read", c_void_p),
        ("discard", c_void_p),
        ("profile", ctypes.CFUNCTYPE(None, c_void_p, c_int32)),
        ("times", ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(c_double), POINTER(c_int32), c_int32)),
        ("close", ctypes.CFUNCTYPE(None, c_void_p)),
        ("step", c_int32),
    )


class KernelInfo(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("bindings", c_int32),
        ("words", c_int32),
        ("written", c_uint32),
        ("team", c_int32),
        ("form_count", c_int32),
        ("forms", c_void_p),
    )


class ProgramInfo(ctypes.Structure):
    _fields_ = (
        ("kernels", POINTER(KernelInfo)),
        ("kernel_count", c_int32),
        ("workgroup", c_int32),
        ("groups", c_int32),
        ("start_count", c_int32),
        ("starts", c_void_p),
        ("first_weight", c_int64),
        ("weights_bytes", c_int64),
        ("code_bytes", c_int64),
        ("code_hash", c_uint64),
        ("packed_bytes", c_int64),
    )


@functools.cache
def library() -> tuple[ctypes.CDLL, bytes | None]:
    """The driver as a library, and the OpenCL library that it uses."""
    folder = Path(tempfile.mkdtemp())
    sources = [path for path in runtime.OPENCL if path.suffix == ".c"]
    shared = ["gcc", "-shared", "-fPIC", "-O1", f"-I{runtime.INCLUDE}", f"-I{runtime.OPENCL[0].parent}"]
    subprocess.run([*shared, *sources, "-o", folder / "libdriver.so", "-ldl"], check=True)
    found = ctypes.CDLL(str(folder / "libdriver.so"))
    found.dk_opencl_open.restype = POINTER(Gpu)
    found.dk_opencl_open.argtypes = (POINTER(ProgramInfo), c_char_p, POINTER(Options), c_char_p, c_size_t)
    if not os.environ.get(GUARD):
        return found, None
    subprocess.run([*shared, DRIVER_TESTS / "forwarding.c", "-o", folder / "libforwarding.so", "-ldl"], check=True)
    return found, str(folder / "libforwarding.so").encode()


def opened(shaders: Mapping[str, Shader], code: str) -> Any:
    """An open device with these kernels."""
    kernels = (KernelInfo * len(shaders))(*(_info(name, shader) for name, shader in shaders.items()))
    text, error = code.encode(), ctypes.create_string_buffer(2000)
    sizes = {"code_bytes": len(text), "code_hash": code_hash(text)}
    info = ProgramInfo(kernels, len(kernels), WEBGPU.workgroup, WEBGPU.groups, **sizes)
    driver, path = library()
    gpu = driver.dk_opencl_open(info, text, Options(library=path), error, len(error))
    assert gpu, error.value.decode()
    return gpu


def _info(name: str, shader: Shader) -> KernelInfo:
    module = read(shader.text())
    bindings = sum(variable.space == "storage" for variable in module.variables)
    return KernelInfo(name.encode(), bindings, len(scalars_of(module)))


def named(shaders: Sequence[Shader]) -> Mapping[str, Shader]:
    return {f"kernel_{number}": shader for number, shader in enumerate(shaders)}


class OpenClShaders(Shaders):
    """A model's shaders in OpenCL C. A buffer is its number and size."""

    def __init__(self, model: onnx.ModelProto, *, in_place: InPlace = InPlace.WHERE_FREE) -> None:
        self.program, shaders = program_of(model, in_place)
        (self.function,) = self.program.functions
        self.numbers = shaders_of(self.program)
        self.texts = [opencl_program(named(shaders))]
        self.gpu = opened(named(shaders), self.texts[0])
        self.pipelines = list(range(len(shaders)))
        self.made = 0

    def __del__(self) -> None:
        if hasattr(self, "gpu"):
            self.gpu.contents.close(self.gpu)

    def __call__(self, *inputs: np.ndarray) -> list[np.ndarray]:
        self.made = 0
        self.ask("restart")
        return super().__call__(*inputs)

    def ask(self, name: str, *arguments: Any) -> None:
        driver = self.gpu.contents.driver
        assert getattr(driver, name)(self.gpu, *arguments) == 0, driver.error

    def buffer(self, data: np.ndarray, _usage: str = "") -> Any:
        number, contents = FIRST_BUFFER + self.made, data.tobytes()
        self.made += 1
        self.ask("provide", number, len(contents))
        self.ask("upload", self.slice((number, len(contents))), contents)
        return number, len(contents)

    def slice(self, buffer: tuple[int, int]) -> Slice:
        number, size = buffer
        return Slice(number, b"a tensor", 0, size)

    def read(self, buffer: Any, shape: Sequence[int], dtype: str) -> np.ndarray:
        found = np.empty(shape, dtype)
        self.ask("download", found.ctypes.data, Slice(buffer[0], b"a tensor", 0, found.nbytes))
        self.ask("wait")
        return found

    def run(self, kernel: Kernel, pipeline: Any, scalars: Sequence[int], buffers: Sequence[Any]) -> None:
        params = [param for param in kernel.func.params if not isinstance(param.ty, ir.PointerType)]
        extent = 1 if kernel.parallel_extent is None else kernel.parallel_extent
        threads = evaluate(extent, dict(zip(params, scalars, strict=False))) * (WEBGPU.workgroup if kernel.team else 1)
        if not threads:
            return
        slices = (Slice * len(buffers))(*map(self.slice, buffers))
        values = (c_int32 * len(scalars))(*scalars)
        self.ask("dispatch", pipeline, slices, len(slices), values, len(values), threads)

    def copy(self, source: Any, target: Any) -> None:
        size = min(source[1], target[1])
        self.ask("copy", self.slice(target), 0, Slice(source[0], b"a tensor", 0, size))
