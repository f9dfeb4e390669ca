"""The time of parts of a build, counted as calls of Python functions, does not grow faster than the model."""

from __future__ import annotations

import sys
from collections.abc import Callable

import onnx
from tvm import tirx

import deploykit
from deploykit.compiler.codegen.host.source import emit_host
from deploykit.compiler.dims.facts import Facts
from deploykit.compiler.observer import Observer
from deploykit.compiler.variant import PORTABLE_C
from deploykit.pipeline import compile_program


def calls(work: Callable[[], object]) -> int:
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def host_code(dims: int) -> int:
    """The number of calls to print the host code of a model with this many dims, one per input."""
    inputs = ", ".join(f"float[n{i}, 3] x{i}" for i in range(dims))
    outputs = ", ".join(f"float[n{i}, 3] y{i}" for i in range(dims))
    nodes = "\n".join(f"y{i} = Relu (x{i})" for i in range(dims))
    text = f'<ir_version: 8, opset_import: ["" : 17]> model ({inputs}) => ({outputs}) {{ {nodes} }}'
    model = deploykit.load(onnx.parser.parse_model(text))
    program = compile_program(model, PORTABLE_C, Observer(), {})
    assert program is not None
    return calls(lambda: emit_host([program], "0"))


def test_host_code_grows_with_the_number_of_dims() -> None:
    host_code(2)  # compiles the templates
    few, many = host_code(20), host_code(80)
    assert many < 4.5 * few


def test_what_bounds_decide_is_found_once() -> None:
    facts = Facts()
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    facts.bind(n, 1, 4096)
    facts.bind(m, 1, 4096)
    size = tirx.max((n + 5) // 7 * m, (m + 3) // 4 * n) - tirx.min(n // 2, m // 3)
    whole = size
    for step in range(2, 12):
        whole = whole + tirx.Select(size > step, size * step, tirx.IntImm("int64", step))
    first, second = (calls(lambda: facts.simplify(whole)) for _ in range(2))
    assert second < 0.85 * first
