"""The notes of a build about kernels that do not run on a GPU."""

from __future__ import annotations

import onnx
import pytest

from deploykit.building import load
from deploykit.compiler.observer import Observer
from deploykit.compiler.program.variants import joined
from deploykit.pipeline import compile_program
from deploykit.targets.webgpu.variants import SHADERS, WASM

NOTE = "with the device 'webgpu', 1 of 2 kernels run on the CPU: it has tensors of float64"


@pytest.mark.parametrize(("dtype", "noted"), [("float", False), ("double", True)])
def test_kernels_on_the_cpu_are_named_with_the_reason(dtype: str, noted: bool) -> None:
    text = f"""<ir_version: 9, opset_import: ["": 20]>
    f (float[n] x, {dtype}[n] y) => (float[n] z, float[n] w) {{
        z = Sqrt(x)
        s = Sqrt(y)
        w = Cast<to=1>(s)
    }}"""
    model = load(onnx.parser.parse_model(text))
    programs = [compile_program(model, variant, Observer(), {}) for variant in (WASM, SHADERS)]
    notes = joined(programs)[0].notes
    assert [note.partition(" (")[0] for note in notes] == ([NOTE] if noted else [])
