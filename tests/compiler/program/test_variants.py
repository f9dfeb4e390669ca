"""Programs of one model for several devices."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from onnx import numpy_helper

import deploykit
from deploykit.compiler.observer import Observer
from deploykit.compiler.program.ir import ConstantStorage, Program
from deploykit.pipeline import compile_variants
from deploykit.targets.base import find_target
from deploykit.targets.webgpu.variants import SHADERS
from tests.seeded import seeded

TEXT = """<ir_version: 9, opset_import: ["": 20]>
variants (float[n, 48] x) => (float[n, 40] y, double[n, 8] z) {
    h = MatMul(x, w)  r = Relu(h)  t = MatMul(r, v)  y = Add(t, b)
    d = Cast<to = 11>(r)  parts = Gemm(d, u)  z = Exp(parts)
}"""
WEIGHTS = {"w": (48, 32), "v": (32, 40), "b": (40,)}


def programs_for(count: int) -> tuple[Program, ...]:
    """The programs of a portable build for CPUs, and for this many GPUs with different names."""
    model = seeded(TEXT, WEIGHTS)
    u = np.random.default_rng(1).standard_normal((32, 8))
    model.graph.initializer.append(numpy_helper.from_array(u, "u"))
    variants = find_target("host").variants("portable")
    assert SHADERS.gpu is not None
    gpus = [replace(SHADERS, gpu=replace(SHADERS.gpu, name=f"gpu{i}")) for i in range(count)]
    programs = compile_variants(deploykit.load(model), [*variants, *gpus], Observer(), {})
    assert programs is not None
    assert [program.gpu.name for program in programs if program.gpu] == [f"gpu{i}" for i in range(count)]
    return programs


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_variants_share(count: int) -> None:
    programs = programs_for(count)
    levels = [program for program in programs if program.gpu is None]
    assert len(levels) > 1
    first = levels[0]
    for program in programs:
        assert [f.inputs[0].name for f in program.functions] == ["x"]
        assert [dim.name for dim in program.functions[0].dims] == [dim.name for dim in first.functions[0].dims]
        ends = [(c.offset, c.offset + c.data.nbytes) for c in sorted(program.constants, key=lambda c: c.offset)]
        assert all(end <= start for (_, end), (start, _) in pairwise(ends)), "they overlap"
        assert all(start % program.alignment == 0 for start, _ in ends)
    assert all(_places(level) == _places(first) for level in levels)
    for level in levels:
        assert str(level.functions[0].arena.size) == str(first.functions[0].arena.size)


@pytest.mark.parametrize("count", [1, 2])
def test_constants_stay_what_they_are(count: int) -> None:
    """Each constant tensor has the bytes that it has in a program that is built alone."""
    for program in programs_for(count):
        own = [t for t in program.functions[0].tensors if isinstance(t.storage, ConstantStorage)]
        assert own
        for tensor in own:
            assert isinstance(tensor.storage, ConstantStorage)
            data = program.constants[tensor.storage.index].data
            assert str(data.dtype) == tensor.dtype
            assert data.size == np.prod([int(n) for n in tensor.shape])


def test_what_two_memories_have_in_common_is_one_stretch_of_each() -> None:
    cpu, *_, gpu = programs_for(1)
    shared = {c.data.tobytes() for c in cpu.constants} & {c.data.tobytes() for c in gpu.constants}
    on_cpu = [c.data.tobytes() in shared for c in sorted(cpu.constants, key=lambda c: c.offset)]
    on_gpu = [c.data.tobytes() in shared for c in sorted(gpu.constants, key=lambda c: c.offset)]
    assert on_cpu == sorted(on_cpu), "at the end of the CPU's"
    assert on_gpu == sorted(on_gpu, reverse=True), "at the beginning of the GPU's"


def _places(program: Program) -> list[tuple[int, bytes]]:
    return [(constant.offset, constant.data.tobytes()) for constant in program.constants]
