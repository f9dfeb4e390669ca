"""Shaders in SPIR-V: valid for Vulkan 1.1, and the same on every run."""

from __future__ import annotations

import struct

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from bench.shader_math import FUNCTIONS as ELEMENTARY
from bench.shader_math import model_of
from deploykit.compiler.codegen.shaders.spirv.numbers import Capability, Op
from deploykit.compiler.codegen.shaders.spirv.shader import spirv
from tests.compiler.codegen.shaders.harness import program_of
from tests.compiler.codegen.shaders.spirv_tools import FUNCTIONS, texts_of, validate
from tests.compiler.codegen.shaders.test_reading import ENTRY, HEAD
from tests.compiler.codegen.shaders.test_variants import MODEL as HALVES
from tests.compiler.codegen.shaders.test_variants import WEIGHTS as HALF_WEIGHTS
from tests.compiler.codegen.shaders.test_wgsl import MLP, WEIGHTS
from tests.conftest import Golden
from tests.seeded import seeded
from tests.web.test_kernels import MODEL as QUANTIZED
from tests.web.test_kernels import VECTORS

SMALL = """\
struct Scalars { n: i32, threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
fn unused(x: f32) -> f32 { return x; }
fn twice(x: f32) -> f32 { return 2.0 * x; }
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {
    let thread = i32(group.x + group.y * 65535u) * 64 + i32(number);
    if (thread >= scalars.threads) { return; }
    var sum = 0.0;
    for (var i: i32 = 0; i < scalars.n; i += 1) {
        sum += x[thread * scalars.n + i];
    }
    y[thread] = twice(sum);
}
"""

HALF_ARRAYS = """\
enable f16;
struct Scalars { threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read_write> h: array<f16>;
@group(0) @binding(2) var<storage, read_write> v: array<vec4<f16>>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) number: u32) {
    h[0] = f16(f32(h[1]));
    v[0] = vec4<f16>(vec4<f32>(v[1]));
}
"""

BODIES = {
    "short circuits": "var i = 3; if (i > 0 && words[i] == 0u || i < 2 && words[i + 1] > 1u) { words[0] = 1u; }",
    "and without memory": "var i = 3; let t = i > 0 && i < 5; if (t || i == 9) { words[0] = 1u; }",
    "loops": "var i = 0; while (i < 9) { i += 1; if (i == 3) { continue; } if (i == 5) { break; } } words[0] = u32(i);",
    "endless loops": "var i = 0; loop { i += 1; if (i > 5) { break; } } words[0] = u32(i);",
    "a condition that branches": "var i = 0; while (i < 9 && words[i] > 0u) { i += 1; } words[0] = u32(i);",
    "switches": "switch (words[0] & 3u) { case 1u: { words[0] = 2u; } case 2u, 3u { return; } default: { } }",
    "a switch in a loop": "for (var i = 0; i < 4; i += 1) { switch (i) { case 1: { continue; } default: { break; } } }",
    "returns on all ways": "if (words[0] == 1u) { return; } else { return; }",
    "what is never reached": "words[0] = 1u; return; words[0] = 2u;",
    "else if": "var a = 1.0; if (a > 1.0) { a = 2.0; } else if (a > 0.0) { a = 3.0; } else { a = 4.0; }",
    "local arrays": "var t = array<u32, 3>(1u, 2u, 3u); words[0] = select(t[words[1]], 0u, words[1] > 2u);",
    "lanes": "var v = vec4<f32>(); v.y = 1.0; v[words[0]] = 2.0; words[0] = u32(v.y + rows[1].z + v.wzyx.x);",
    "atomics": "atomicAnd(&shared[0], ~(255u << 8u)); atomicOr(&shared[0], atomicLoad(&shared[1]));",
    "bits": "words[0] = extractBits(words[1], words[2], 8u) | insertBits(words[1], 3u, words[2], words[3]);",
    "shifts": "let s = words[2] & 7u; words[0] = (words[1] << s) >> words[3];",
    "divisions": "let i = i32(words[0]); words[0] = u32(i / scalars.size + i % scalars.size - i % 7) / words[1];",
    "conversions": "let t = words[0] != 0u; words[1] = u32(t) + u32(f32(t)) + u32(i32(1.5f * f32(words[2])));",
    "vectors of truths": "let v = rows[0]; let t = (v < rows[1]) | (v != v); rows2(select(v, rows[1], t));",
    "shadowing": "let i = 1u; { let i = words[0]; words[1] = 1u << i; } words[2] = 1u << i;",
}

MODELS = {
    "mlp": lambda: seeded(MLP, WEIGHTS),
    "halves": lambda: seeded(HALVES, HALF_WEIGHTS, np.float16),
    "quantized": lambda: seeded(QUANTIZED, {"w": (70, 37)}, np.int8),
    "vectors": lambda: seeded(VECTORS, {"w": (72, 40), "v": (72, 16)}, np.int8),
    "elementary": lambda: model_of(list(ELEMENTARY)),
    "elementary halves": lambda: model_of(list(ELEMENTARY), TensorProto.FLOAT16),
}


def instructions(code: bytes) -> list[tuple[int, ...]]:
    """The opcode and the operands of each instruction."""
    words = struct.unpack(f"<{len(code) // 4}I", code)
    found, at = [], 5
    while at < len(words):
        found.append((words[at] & 0xFFFF, *words[at + 1 : at + (words[at] >> 16)]))
        at += words[at] >> 16
    return found


def capabilities(code: bytes) -> set[int]:
    return {words[0] for op, *words in instructions(code) if op == Op.CAPABILITY}


def translated(body: str) -> bytes:
    taker = "fn rows2(v: vec4<f32>) { words[0] = u32(v.x); }\n"
    return spirv(f"{HEAD}{taker}{ENTRY}{body}\n}}\n")


def test_words(golden: Golden) -> None:
    """One instruction per line: its number and operands. The same text gives the same words."""
    code = spirv(SMALL)
    assert spirv(SMALL) == code
    validate(code)
    golden("".join(" ".join(map(str, words)) + "\n" for words in instructions(code)), "small.spirv")


def test_unused_functions_are_left_out() -> None:
    operations = [op for op, *_ in instructions(spirv(SMALL))]
    assert operations.count(Op.FUNCTION) == 2
    assert operations.count(Op.FUNCTION_CALL) == 1


@pytest.mark.parametrize("name", BODIES)
def test_statements(name: str) -> None:
    validate(translated(BODIES[name]))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(name: str) -> None:
    validate(spirv(FUNCTIONS[name]))


def test_operands_that_memory_decides_are_behind_a_branch() -> None:
    def branches(name: str) -> int:
        return sum(op == Op.PHI for op, *_ in instructions(translated(BODIES[name])))

    assert branches("short circuits") == 3
    assert branches("and without memory") == 0


def test_halves_in_memory_need_no_arithmetic() -> None:
    code = spirv(HALF_ARRAYS)
    validate(code)
    assert capabilities(code) == {Capability.SHADER, Capability.STORAGE_BUFFER_16BIT}
    code = spirv(HALF_ARRAYS.replace("f16(f32(h[1]))", "h[1] + h[2]"))
    validate(code)
    assert capabilities(code) == {Capability.SHADER, Capability.STORAGE_BUFFER_16BIT, Capability.FLOAT16}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    """All shaders of a model, for devices with each combination of features."""
    model: onnx.ModelProto = MODELS[name]()
    _, shaders = program_of(model)
    texts = {text for shader in shaders for _, text in texts_of(shader)}
    assert texts
    for text in texts:
        code = spirv(text)
        validate(code)
        assert Capability.FLOAT16 not in capabilities(code), "DK_GPU_F16 is that buffers hold them"
