"""Costs of layers whose numbers of operations can be counted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import te, tirx

import deploykit
from deploykit.compiler.cost import Cost, cost, effort, work
from deploykit.compiler.dims import evaluate, to_text
from deploykit.compiler.operators.building.imperative import Array, Code
from deploykit.compiler.schedules.instances import SQUARES
from deploykit.frontends.onnx import load_onnx


def cost_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str]],
    weights: dict[str, np.ndarray],
    rank: int = 2,
) -> Cost:
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"y{axis}" for axis in range(rank)])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return cost(load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)))


def test_matmul_counts_two_operations_for_each_product() -> None:
    weight = np.ones((8, 4), np.float32)
    result = cost_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ("n", 8)}, {"w": weight})
    assert to_text(result.flops) == "64*n"
    assert to_text(result.traffic) == "48*n + 128"


def test_padding_is_no_arithmetic() -> None:
    weight = np.ones((8, 3, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    result = cost_of([node], {"x": ("n", 3, "H", "W")}, {"w": weight}, rank=4)
    assert evaluate(result.flops, {"n": 2, "H": 5, "W": 7}) == 2 * weight.size * 2 * 5 * 7


@pytest.mark.parametrize(("operator", "operations"), [("Relu", 1), ("Neg", 1), ("Exp", 1), ("Identity", 0)])
def test_elementwise(operator: str, operations: int) -> None:
    result = cost_of([helper.make_node(operator, ["x"], ["y"])], {"x": ("n", 5)}, {})
    assert evaluate(result.flops, {"n": 3}) == 15 * operations


def kernel_of(output: te.Tensor, *inputs: te.Tensor) -> tirx.PrimFunc:
    return te.create_prim_func([*inputs, output])


def test_a_kernel_reads_no_more_of_a_table_than_it_looks_up() -> None:
    rows = tirx.Var("rows", "int64")
    table, index = te.placeholder((1000, 8), name="table"), te.placeholder((rows,), "int64", name="index")
    found = work(kernel_of(te.compute((rows, 8), lambda i, j: table[index[i], j] * 2.0, name="found"), table, index))
    assert found is not None
    assert evaluate(found.flops, {rows: 3}) == 24
    assert evaluate(found.traffic, {rows: 3}) == 3 * 8 + 2 * 4 * 3 * 8
    assert evaluate(found.traffic, {rows: 5000}) == 5000 * 8 + 4 * 8000 + 4 * 5000 * 8


def test_a_kernel_reads_what_it_uses_often_once() -> None:
    a, b = te.placeholder((16, 32), name="a"), te.placeholder((32, 8), "float32", name="b")
    k = te.reduce_axis((0, 32), "k")
    found = work(kernel_of(te.compute((16, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k)), a, b))
    assert found == Cost(2 * 16 * 32 * 8, 4 * (16 * 32 + 32 * 8 + 16 * 8))


def test_products_of_bytes_are_operations() -> None:
    a, b = te.placeholder((16,), "int8", name="a"), te.placeholder((16,), "uint8", name="b")
    k = te.reduce_axis((0, 16), "k")
    product = te.compute((1,), lambda _: te.sum(a[k].astype("int32") * b[k].astype("int32"), axis=k))
    found = work(kernel_of(product, a, b))
    assert found == Cost(2 * 16, 16 + 16 + 4)


def test_the_effort_of_a_kernel_is_what_it_computes_and_moves() -> None:
    n = tirx.Var("n", "int64")
    x = te.placeholder((n,), name="x")
    found = work(kernel_of(te.compute((n,), lambda i: x[i] * 2.0 + 1.0), x))
    assert to_text(effort(found, vectors=True)) == "18*n"
    assert to_text(effort(found, vectors=False)) == "48*n"
    assert effort(None, vectors=True) == 0
    assert effort(Cost(SQUARES, 8), vectors=True) == 0


def test_host_code_says_how_much_there_is_to_share(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 20]>
        m (float[n, 64] x) => (float[n, 64] y) { y = Exp(x) }""")
    deploykit.build(model, output=tmp_path / "dist")
    assert "(double)call.n * 1088, model_m_exp_range," in (tmp_path / "dist" / "model.c").read_text()


def test_of_two_branches_the_larger_counts() -> None:
    x = te.placeholder((10,), name="x")

    def statements(sources: Sequence[tirx.Buffer], targets: Sequence[tirx.Buffer]) -> tirx.Stmt:
        i = tirx.Var("i", "int64")
        value = tirx.BufferLoad(sources[0], [i])
        small, large = (tirx.BufferStore(targets[0], v, [i]) for v in (value * 2.0, value * 2.0 + 1.0))
        zero = tirx.const(0, "int64")
        branch = tirx.IfThenElse(value > 0.0, small, large)
        return tirx.For(i, zero, tirx.const(10, "int64"), tirx.ForKind.SERIAL, branch)

    y = te.extern((10,), [x], statements, dtype="float32", name="y")
    found = work(kernel_of(y, x))
    assert found is not None
    assert evaluate(found.flops, {}) == 20


def test_guarded_statements_count_as_often_as_their_condition_holds() -> None:
    n = tirx.Var("n", "int64")
    x = te.placeholder((n,), name="x")

    def statements(sources: Sequence[tirx.Buffer], targets: Sequence[tirx.Buffer]) -> tirx.Stmt:
        code = Code()
        data, result = Array(code, sources[0]), Array(code, targets[0])
        with code.loop("i", n) as i:
            with code.when(tirx.all(i >= 2, n - 3 > i)):
                result[i] = data[i] * 2.0
            with code.when(i < 2):
                result[i] = data[i] * 2.0 + 1.0
            with code.when(data[i] > 0.0):
                result[i] = data[i] + 1.0
        return code.statement()

    y = te.extern((n,), [x], statements, dtype="float32", name="y")
    found = work(kernel_of(y, x))
    assert found is not None
    assert [evaluate(found.flops, {n: size}) for size in (10, 25)] == [5 + 2 * 2 + 10, 20 + 2 * 2 + 25]


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent_layers_cost_their_steps(direction: str) -> None:
    """The first step computes no products of the state, which is zero."""
    hidden, directions = 16, 2 if direction == "bidirectional" else 1
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=hidden, direction=direction)]
    weights = {name: np.ones((directions, 4 * hidden, hidden), np.float32) for name in "wr"}
    cell = 4 * 2 * hidden * hidden + 2 * 4 * hidden
    for length, batch in ((1, 1), (7, 1), (3, 13)):
        found = cost_of(nodes, {"x": ("s", "b", hidden)}, weights, rank=4)
        flops = evaluate(found.flops, {"s": length, "b": batch})
        steps = directions * batch * (cell * length + cell * (length - 1))
        assert 0.9 * steps < flops < 1.3 * steps + directions * batch * length * hidden * 30


def test_a_kernel_used_twice_counts_for_each_shape() -> None:
    nodes = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["c"], ["d"])]
    nodes.append(helper.make_node("Concat", ["b", "d"], ["y"], axis=0))
    result = cost_of(nodes, {"a": ("n",), "c": ("m",)}, {}, rank=1)
    assert evaluate(result.flops, {"n": 3, "m": 10}) == 13


def test_a_model_may_have_many_operators() -> None:
    nodes = [helper.make_node("Neg", [f"x{n}" if n else "x"], [f"x{n + 1}" if n < 699 else "y"]) for n in range(700)]
    assert to_text(cost_of(nodes, {"x": ("n", 3)}, {}).flops) == "2100*n"
