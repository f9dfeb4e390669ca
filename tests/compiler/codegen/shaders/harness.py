"""Runs models for GPUs with wgpu, on an adapter with float16 and subgroups.

The shaders can be those for devices with or without these features. Kernels that are not shaders are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from tvm import ir

import deploykit
from deploykit.compiler.codegen.shaders.bindings import emit_shaders, shaders_of, sharing_of
from deploykit.compiler.codegen.shaders.sections import F16, SUBGROUPS, Shader
from deploykit.compiler.lowering.kernel import Kernel
from deploykit.compiler.observer import Observer
from deploykit.compiler.program.inplace import InPlace
from deploykit.compiler.program.ir import (
    ConstantStorage,
    Copy,
    InputStorage,
    Launch,
    OutputStorage,
    Program,
    Tensor,
    Transfer,
)
from deploykit.pipeline import compile_program
from deploykit.targets.webgpu.devices import WEBGPU
from deploykit.targets.webgpu.variants import SHADERS
from tests.compiler.schedules.harness import evaluate

FEATURES = {F16: "shader-f16", SUBGROUPS: "subgroup"}
"""The names of features in wgpu."""

SUBGROUP_DIRECTIVES = re.compile(r"^(?:enable subgroups|diagnostic).*\n", re.MULTILINE)
"""wgpu has subgroups without these directives, and refuses them."""

VECTOR_BYTES = 16


@cache
def find_device() -> Any | None:
    """A device of the first adapter with these features; `None` if there is none."""
    try:
        import wgpu
    except ImportError:
        return None
    for adapter in wgpu.gpu.enumerate_adapters_sync():
        if adapter.features >= set(FEATURES.values()):
            return adapter.request_device_sync(required_features=list(FEATURES.values()))
    return None


def program_of(model: onnx.ModelProto, in_place: InPlace = InPlace.WHERE_FREE) -> tuple[Program, list[Shader]]:
    """A model compiled for a GPU, and its shaders."""
    program = compile_program(deploykit.load(model), replace(SHADERS, in_place=in_place), Observer(), {})
    assert program is not None
    return program, emit_shaders(program)


class Dispatcher:
    """Runs shaders on a device."""

    def __init__(self) -> None:
        self.device = find_device()

    def pipeline(self, text: str) -> Any:
        accesses = re.findall(r"var<storage, (\w+)>", text)
        kinds = ["uniform", *("storage" if access == "read_write" else "read-only-storage" for access in accesses)]
        entries = [{"binding": i, "visibility": "COMPUTE", "buffer": {"type": kind}} for i, kind in enumerate(kinds)]
        layout = self.device.create_bind_group_layout(entries=entries)
        module = self.device.create_shader_module(code=SUBGROUP_DIRECTIVES.sub("", text))
        return self.device.create_compute_pipeline(
            layout=self.device.create_pipeline_layout(bind_group_layouts=[layout]), compute={"module": module}
        )

    def buffer(self, data: np.ndarray, usage: str = "STORAGE|COPY_SRC|COPY_DST") -> Any:
        """A buffer with this data, padded to whole vectors."""
        contents = data.tobytes()
        room = -len(contents) % VECTOR_BYTES if contents else VECTOR_BYTES
        return self.device.create_buffer_with_data(data=contents + bytes(room), usage=usage)

    def read(self, buffer: Any, shape: Sequence[int], dtype: str) -> np.ndarray:
        count = int(np.prod(shape))
        return np.frombuffer(self.device.queue.read_buffer(buffer), dtype, count).reshape(shape)

    def run(self, kernel: Kernel, pipeline: Any, scalars: Sequence[int], buffers: Sequence[Any]) -> None:
        """Dispatch a kernel's shader, with one buffer for each group of its operands."""
        params = [param for param in kernel.func.params if not isinstance(param.ty, ir.PointerType)]
        extent = 1 if kernel.parallel_extent is None else kernel.parallel_extent
        threads = evaluate(extent, dict(zip(params, scalars, strict=False))) * (WEBGPU.workgroup if kernel.team else 1)
        bound = [self.buffer(np.array([*scalars, threads], np.int32), "UNIFORM"), *buffers]
        entries = [{"binding": i, "resource": {"buffer": buffer}} for i, buffer in enumerate(bound)]
        group = self.device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
        encoder = self.device.create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(pipeline)
        work.set_bind_group(0, group)
        groups = -(-threads // WEBGPU.workgroup)
        work.dispatch_workgroups(min(groups, WEBGPU.groups), -(-groups // WEBGPU.groups))
        work.end()
        self.device.queue.submit([encoder.finish()])

    def copy(self, source: Any, target: Any) -> None:
        encoder = self.device.create_command_encoder()
        encoder.copy_buffer_to_buffer(source, 0, target, 0, min(source.size, target.size))
        self.device.queue.submit([encoder.finish()])


class Shaders(Dispatcher):
    """A model's shaders in the variant for a device with these features."""

    def __init__(self, model: onnx.ModelProto, *features: str, in_place: InPlace = InPlace.WHERE_FREE) -> None:
        super().__init__()
        self.program, shaders = program_of(model, in_place)
        (self.function,) = self.program.functions
        self.numbers = shaders_of(self.program)
        self.texts = [shader.text(features) for shader in shaders]
        self.pipelines = [self.pipeline(text) for text in self.texts]

    def __call__(self, *inputs: np.ndarray) -> list[np.ndarray]:
        function = self.function
        values = {
            extent: size
            for port, array in zip(function.inputs, inputs, strict=True)
            for extent, size in zip(port.shape, array.shape, strict=True)
            if isinstance(extent, ir.Var)
        }
        shapes = [[evaluate(extent, values) for extent in tensor.shape] for tensor in function.tensors]
        contents: dict[Any, np.ndarray] = {}
        for tensor, shape in zip(function.tensors, shapes, strict=True):
            data = self._contents(tensor, shape, inputs)
            contents[tensor.storage] = max(data, contents.get(tensor.storage, data), key=lambda array: array.nbytes)
        buffers = {storage: self.buffer(data) for storage, data in contents.items()}
        for step in function.steps:
            if isinstance(step, Launch):
                self._launch(step, values, buffers)
            elif isinstance(step, Copy):
                source, target = (buffers[function.tensors[tensor].storage] for tensor in (step.source, step.target))
                self.copy(source, target)
            else:
                assert isinstance(step, Transfer), f"nothing runs a {type(step).__name__} here"
        results = []
        for index, port in enumerate(function.outputs):
            dtype = next(tensor.dtype for tensor in function.tensors if tensor.storage == OutputStorage(index))
            shape = [evaluate(extent, values) for extent in port.shape]
            results.append(self.read(buffers[OutputStorage(index)], shape, dtype))
        return results

    def _contents(self, tensor: Tensor, shape: Sequence[int], inputs: Sequence[np.ndarray]) -> np.ndarray:
        """The contents of a tensor before the run; ones for results, because their contents must not matter."""
        if isinstance(tensor.storage, InputStorage):
            return inputs[tensor.storage.index]
        if isinstance(tensor.storage, ConstantStorage):
            return self.program.constants[tensor.storage.index].data
        return np.ones(shape, tensor.dtype)

    def _launch(self, step: Launch, values: Mapping[Any, int], buffers: Mapping[Any, Any]) -> None:
        kernel = self.program.kernels[step.kernel]
        assert kernel.gpu, f"{kernel.name} is no shader"
        sharing = sharing_of(self.program, self.function, step)
        scalars = [evaluate(value, values) for value in step.scalars]
        operands = [step.tensors[sharing.groups.index(group)] for group in range(len(sharing.written))]
        bound = [buffers[self.function.tensors[tensor].storage] for tensor in operands]
        self.run(kernel, self.pipelines[self.numbers[step.kernel, sharing]], scalars, bound)
