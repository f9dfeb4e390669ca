"""Texts of shaders for the tests of their translation to SPIR-V, and the validator of SPIR-V."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations

import pytest

from deploykit.compiler.codegen.shaders.sections import Shader
from deploykit.compiler.codegen.shaders.wgsl import support

_HEAD = """\
struct Scalars {{ threads: i32 }}
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read_write> words: array<vec4<u32>>;
{functions}@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) number: u32) {{
{arguments}    let result = {call};
}}
"""


def _calling(name: str) -> str:
    """A shader that calls one function of the printer."""
    kinds = re.findall(
        r"\w+: ([\w<>]+)", re.findall(rf"^fn {name}(\(.*?\))", support.definitions(f"{name}("), re.MULTILINE)[0]
    )
    arguments = "".join(f"    var a{number}: {kind};\n" for number, kind in enumerate(kinds))
    call = f"{name}({', '.join(f'a{number}' for number in range(len(kinds)))})"
    return _HEAD.format(functions=support.definitions(call), arguments=arguments, call=call)


_IN_VECTORS = ("exponential_4", "power_4", "sine_4", "rounded_4", "is_nan_4", "is_inf_4")

FUNCTIONS = {name: _calling(name) for name in (*support.NAMES, *_IN_VECTORS)}
"""A shader for each function of the printer, by name."""


def texts_of(shader: Shader) -> Iterator[tuple[tuple[str, ...], str]]:
    """A shader's texts with the features that each needs."""
    features = sorted({section.feature for section in shader.sections if section.feature})
    for count in range(len(features) + 1):
        for chosen in combinations(features, count):
            yield chosen, shader.text(chosen)


def validate(code: bytes) -> None:
    """Check a module with the Khronos validator; the test is skipped where that is missing."""
    if shutil.which("spirv-val") is None:
        pytest.skip("needs spirv-val, of the SPIR-V tools")
    command = ["spirv-val", "--target-env", "vulkan1.1", "-"]
    found = subprocess.run(command, input=code, capture_output=True, check=False)
    assert not found.returncode, found.stderr.decode()
