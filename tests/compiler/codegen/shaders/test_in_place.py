"""Shaders whose result is in the memory of an operand: random kernels, and a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tvm import ir, tirx

from deploykit.compiler.codegen.shaders.language import Sharing
from deploykit.compiler.codegen.shaders.languages import language_of
from deploykit.compiler.codegen.shaders.lowering import shaders
from deploykit.compiler.lowering.lower import LoweredPart, LoweredParts
from deploykit.compiler.program.inplace import InPlace
from deploykit.compiler.program.ir import Copy
from deploykit.compiler.program.overwriting import overwritable_inputs, overwritable_operands
from deploykit.targets.webgpu.devices import WEBGPU
from tests.compiler.codegen.shaders.harness import Dispatcher, Shaders, find_device
from tests.compiler.program.kernels import SIZES, Kernel, kernels
from tests.frontends.onnx.harness import parse

pytestmark = pytest.mark.skipif(find_device() is None, reason="needs wgpu and an adapter with float16 and subgroups")


class Part(Dispatcher):
    """A kernel that is one shader. `shared` is the operand whose memory holds the result, if any."""

    def __init__(self, part: LoweredPart, func: tirx.PrimFunc, shared: int | None) -> None:
        super().__init__()
        self.part, self.func = part, func
        count = len(part.operands)
        groups = [*range(count - 1), count - 1 if shared is None else shared]
        self.groups = tuple(groups)
        self.count = max(groups) + 1
        written = tuple(group == groups[-1] for group in range(self.count))
        sharing = Sharing(self.groups, written, ((),) * self.count, (0,) * self.count)
        self.compiled = self.pipeline(language_of(WEBGPU).emit(part.kernel.kernel, sharing, WEBGPU).text(()))

    def __call__(self, arguments: Sequence[np.ndarray]) -> np.ndarray:
        dims: dict[Any, int] = {}
        for param, array in zip(self.func.params, arguments, strict=True):
            pairs = zip(param.shape, array.shape, strict=True)
            dims |= {extent: size for extent, size in pairs if isinstance(extent, ir.Var)}
        operands = [arguments[position] for position in self.part.operands]
        first = [self.groups.index(group) for group in range(self.count)]
        buffers = [self.buffer(operands[position]) for position in first]
        scalars = [dims[scalar] for scalar in self.part.kernel.scalars]
        self.run(self.part.kernel.kernel, self.compiled, scalars, buffers)
        return self.read(buffers[self.groups[-1]], operands[-1].shape, str(operands[-1].dtype))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(kernels())
def test_random_kernels_over_their_operands(kernel: Kernel) -> None:
    inputs = overwritable_inputs(kernel.func)
    lowered = shaders(kernel.func, "kernel", WEBGPU) if inputs else ""
    if not isinstance(lowered, LoweredParts):
        return
    (part, *_) = lowered.parts
    alone = Part(part, kernel.func, None) if len(lowered.parts) == 1 else None
    for operand in overwritable_operands(kernel.func, inputs, lowered):
        assert alone is not None
        over = Part(part, kernel.func, operand)
        for n, m in SIZES:
            arguments = kernel.arguments(n, m)
            np.testing.assert_array_equal(over(arguments), alone(arguments), err_msg=f"over {operand} at {n}, {m}")


def test_a_model_always_in_place() -> None:
    """The sum is computed in the memory of a copy of an operand; its transpose is not."""
    model = parse(
        "(float[a, b] x, float[b] v) => (float[b, a] y, float[a, b] z) {"
        " s = Add(x, v)  r = Relu(s)  y = Transpose(r)  t = Abs(x)  z = Sub(t, r) }"
    )
    never, always = (Shaders(model, in_place=in_place) for in_place in (InPlace.NEVER, InPlace.ALWAYS))
    assert any(isinstance(step, Copy) for step in always.function.steps)
    assert not any(isinstance(step, Copy) for step in never.function.steps)
    for a, b in SIZES:
        x, v = (np.random.default_rng(a).integers(-9, 9, shape).astype("float32") for shape in ((a, b), (b,)))
        r = np.maximum(x + v, 0)
        for run in (never, always):
            y, z = run(x, v)
            np.testing.assert_array_equal(y, r.T)
            np.testing.assert_array_equal(z, np.abs(x) - r)
