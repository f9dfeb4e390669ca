"""The text of shaders in OpenCL C: golden files, what becomes of each part of WGSL, and that Clang takes all forms."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

from deploykit.compiler.codegen.shaders.opencl.errors import Unprintable
from deploykit.compiler.codegen.shaders.opencl.program import opencl, opencl_program
from deploykit.compiler.codegen.shaders.sections import F16, Section, Shader
from tests.compiler.codegen.shaders.harness import program_of
from tests.compiler.codegen.shaders.opencl import named
from tests.compiler.codegen.shaders.test_float16 import CASES as HALVES
from tests.compiler.codegen.shaders.test_float16 import HEAD
from tests.compiler.codegen.shaders.test_wgsl import MLP, WEIGHTS
from tests.conftest import Golden
from tests.seeded import seeded
from tests.web.test_kernels import VECTORS as QUANTIZED

BODY = """struct Scalars {{ n: i32, threads: i32 }}
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read> x: array<{kind}>;
@group(0) @binding(2) var<storage, read_write> y: array<{kind}>;
{more}@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {{
    let thread = i32(group.x + group.y * 65535u) * 64 + i32(number);
    if (thread >= scalars.threads) {{ return; }}
    {line}
}}
"""

CLANG = shutil.which("clang") or shutil.which("clang-14")


def line_of(wgsl: str, kind: str = "f32", more: str = "") -> str:
    """The last line of the kernel with this line of WGSL."""
    text = opencl("kernel_0", BODY.format(kind=kind, line=wgsl, more=more))
    compile_with_clang(text)
    return text.splitlines()[-2].strip()


ARM = "int __attribute__((overloadable)) arm_dot(char4, char4);\n"
"""A function of cl_arm_integer_dot_product_int8."""


def compile_with_clang(text: str, *options: str, standard: str = "CL1.2") -> None:
    if CLANG is None:
        return
    strict = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-unused-variable")
    command = [CLANG, "-x", "cl", f"-cl-std={standard}", "-Xclang", "-finclude-default-header", "-fsyntax-only"]
    command += strict
    for target in ("spir", "spir64"):
        sizes = ("-target", target, "-DDK_BINDING_BYTES=1024", *options)
        done = subprocess.run([*command, *sizes, "-"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_program_of_a_model(golden: Golden) -> None:
    _, shaders = program_of(seeded(MLP, WEIGHTS))
    text = opencl_program(named(shaders))
    golden(text, "mlp.cl")
    compile_with_clang(text)
    names = re.findall(r"^(?!__kernel)\w+ (\w+)\(", text, re.MULTILINE)
    assert len(names) == len(set(names)), "functions are printed once"


LINES = {
    "y[thread] = select(0.0, x[thread - 1], thread > 0);": "y[thread] = (thread > 0) ? x[thread - 1] : 0.0f;",
    "y[thread] = f32(i32(x[thread]));": "y[thread] = convert_float(convert_int_sat_rtz(x[thread]));",
    "y[thread] = f32(u32(x[thread]) >> 3u);": "y[thread] = convert_float(convert_uint_sat_rtz(x[thread]) >> 3u);",
    "y[thread] = bitcast<f32>(bitcast<u32>(x[thread]) & 0x7fffffffu);": (
        "y[thread] = as_float(as_uint(x[thread]) & 0x7fffffffu);"
    ),
    "y[thread] = f32(thread / scalars.n);": "y[thread] = convert_float(quotient_int(thread, n));",
    "y[thread] = f32(thread % 7);": "y[thread] = convert_float(thread % 7);",
    "y[thread] = f32(thread % (-1));": "y[thread] = convert_float(rest_int(thread, -1));",
    "y[thread] = round(x[thread]);": "y[thread] = rint(x[thread]);",
    "y[thread] = abs(x[thread]) % 2.0;": "y[thread] = fmod(fabs(x[thread]), 2.0f);",
    "y[thread] = f32(abs(thread)) + inverseSqrt(x[0]);": (
        "y[thread] = convert_float(as_int(abs(thread))) + rsqrt(x[0]);"
    ),
    "y[thread] = unpack2x16float(bitcast<u32>(x[thread])).y;": "y[thread] = floats_of_word(as_uint(x[thread])).y;",
    "y[thread] = f32(extractBits(thread, 8u, 8u));": "y[thread] = convert_float((thread << (24u - 8u)) >> 24u);",
    "y[thread] = f32(extractBits(u32(thread), 8u, 8u));": "y[thread] = convert_float((as_uint(thread) >> 8u) & 255u);",
    "y[thread] = f32(countOneBits(u32(thread)) + countLeadingZeros(1u));": (
        "y[thread] = convert_float(popcount(as_uint(thread)) + clz(1u));"
    ),
    "y[thread] = f32(x[thread] > 1.0);": "y[thread] = (x[thread] > 1.0f) ? 1.0f : 0.0f;",
    "y[thread] += 1.0;": "y[thread] += 1.0f;",
}


WRAPPING = {
    "y[thread] = x[thread] + thread * 5 - 1;": (
        "y[thread] = as_int((as_uint(x[thread]) + (as_uint(thread) * 5u)) - 1u);"
    ),
    "let a = x[0]; y[thread + 1] = a * a;": "y[thread + 1] = as_int(as_uint(a) * as_uint(a));",
    "y[thread] += x[thread];": "y[thread] = as_int(as_uint(y[thread]) + as_uint(x[thread]));",
    "y[thread] = thread * (scalars.n + 1);": "y[thread] = thread * (n + 1);",
}


@pytest.mark.parametrize("wgsl", WRAPPING)
def test_integers_from_tensors_wrap_around(wgsl: str) -> None:
    assert line_of(wgsl, "i32") == WRAPPING[wgsl]


@pytest.mark.parametrize("wgsl", LINES)
def test_scalars(wgsl: str) -> None:
    assert line_of(wgsl) == LINES[wgsl]


VECTORS = {
    "y[thread] = select(x[thread], vec4<f32>(0.0), x[thread] < vec4<f32>(0.0));": (
        "y[thread] = select(x[thread], (float4)(0.0f), x[thread] < (float4)(0.0f));"
    ),
    "y[thread] = select(x[thread], x[thread + 1], thread > 0);": (
        "y[thread] = (thread > 0) ? x[thread + 1] : x[thread];"
    ),
    "y[thread] = vec4<f32>(x[thread] == x[0]);": "y[thread] = convert_float4(-(x[thread] == x[0]));",
    "y[thread] = vec4<f32>(vec4<u32>(vec4<bool>(true, thread > 0, false, true)));": (
        "y[thread] = convert_float4(convert_uint4(-(int4)(-true, -(thread > 0), -false, -true)));"
    ),
    "y[thread] = vec4<f32>(f32((x[thread] > x[0]).y));": (
        "y[thread] = (float4)(((x[thread] > x[0]).y != 0) ? 1.0f : 0.0f);"
    ),
    "y[thread] = vec4<f32>(vec4<i32>(x[thread]) << vec4<u32>(1u));": (
        "y[thread] = convert_float4(convert_int4_sat_rtz(x[thread]) << (uint4)(1u));"
    ),
    "y[thread] = vec4<f32>(x[thread].xy, x[0].zw);": "y[thread] = (float4)(x[thread].xy, x[0].zw);",
}


@pytest.mark.parametrize("wgsl", VECTORS)
def test_vectors(wgsl: str) -> None:
    assert line_of(wgsl, "vec4<f32>") == VECTORS[wgsl]


def test_variables_of_the_module_are_passed() -> None:
    more = """var<private> lane: i32;
var<workgroup> cells: array<f32, 64>;
var<workgroup> one: i32;
fn set(to: i32) { lane = to; }
fn exchanged(mine: f32) -> f32 {
    cells[lane] = mine;
    workgroupBarrier();
    if (lane == 0) { one = 5; }
    return cells[63 - lane] + f32(workgroupUniformLoad(&one));
}
"""
    text = opencl("kernel_0", BODY.format(kind="f32", line="set(3); y[thread] = exchanged(x[thread]);", more=more))
    assert "void set(int* lane, int to) {\n    (*lane) = to;" in text
    assert "float exchanged(int lane, __local float* cells, __local int* one, float mine) {" in text
    assert "y[thread] = exchanged(lane, cells, &one, x[thread]);" in text
    assert "same_in_group_int(&(*one))" in text
    compile_with_clang(text)


def test_names_that_mean_something_in_opencl() -> None:
    text = line_of("let half = x[thread]; let kernel = half; let NAN = kernel; y[thread] = NAN;")
    assert text == "y[thread] = NAN_;"
    with pytest.raises(Unprintable, match="a kernel with the name max"):
        opencl("max", BODY.format(kind="f32", line="y[0] = x[0];", more=""))


@pytest.mark.parametrize("line", ["y[thread] = subgroupAdd(x[thread]);", "y[thread] = f32(insertBits(1, 2, 3u, 4u));"])
def test_what_cannot_be_printed(line: str) -> None:
    with pytest.raises(Unprintable):
        line_of(line)


@pytest.mark.parametrize("name", HALVES)
def test_forms_with_and_without_float16(name: str) -> None:
    _, shaders = program_of(seeded(HEAD + HALVES[name].text, HALVES[name].weights, np.float16))
    text = opencl_program(named(shaders))
    assert text.count("#ifdef DK_F16\n") > 1, "one is before the directive"
    assert "atomic_or(" in text or "uint2*" in text
    for options in ([], ["-DDK_F16"]):
        compile_with_clang(text, *options)


def test_dot_products_of_both_extensions() -> None:
    """No device here has them. Clang declares those of Khronos in OpenCL C 3.0, and `ARM` those of Arm."""
    _, shaders = program_of(seeded(QUANTIZED, {"w": (72, 40), "v": (72, 16)}, np.int8))
    text = opencl_program(named(shaders))
    assert "dot_of_bytes(a, b.w)" in text
    compile_with_clang(text)
    compile_with_clang(text, "-DDK_DOT")
    compile_with_clang(text, "-DDK_DOT", standard="CL3.0")
    compile_with_clang(ARM + text, "-DDK_DOT", "-Dcl_arm_integer_dot_product_int8", "-Wno-unknown-pragmas")


def test_forms_for_devices_that_bind_much() -> None:
    """What all forms need is chosen once, in front of them."""
    load = "fn pick(i: i32) -> f32 {{ return {}; }}\n"
    main = BODY.format(kind="f32", line="y[thread] = pick(thread);", more="")
    whole = (
        Section(load.format("base() + 1.0"), "1000"),
        Section(load.format("base()"), "1000", present=False),
        Section("enable f16;\nfn base() -> f32 { return f32(f16(2.0)); }\n", F16),
        Section("fn base() -> f32 { return 0.0; }\n", F16, present=False),
        Section(main),
    )
    text = opencl_program({"kernel_0": Shader(whole)})
    tests = re.findall(r"^#(?:if|el|end).*", text, re.MULTILINE)
    assert tests[-6:] == ["#ifdef DK_F16", "#else", "#endif", "#if DK_BINDING_BYTES >= 1000", "#else", "#endif"]
    for options in ([], ["-DDK_F16"], ["-UDK_BINDING_BYTES", "-DDK_BINDING_BYTES=10"]):
        compile_with_clang(text, *options)
