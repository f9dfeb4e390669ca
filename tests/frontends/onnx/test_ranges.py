"""Ranges of integers: they contain what the reference implementation computes from random elements within them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from tvm import relax

from deploykit.compiler.operators.building.context import Context, Shared
from deploykit.compiler.operators.building.ranges import range_of
from deploykit.compiler.operators.building.value import Extremes, Value, constant
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ranges import RULES, with_ranges

ELEMENTWISE = {"Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Mod": 2, "Min": 3, "Max": 3, "Sum": 2, "Neg": 1, "Clip": 3}
MOVING = ("Identity", "Flatten", "Transpose")
CASES = 400


def operand(random: np.random.Generator, dtype: type, *, scalar: bool) -> tuple[Value, np.ndarray]:
    """A constant, or a tensor of which both bounds, one or none are known."""
    wide = random.random() < 0.2
    reach = np.iinfo(dtype).max if wide else 20
    least = 0 if random.random() < 0.5 else -reach
    low, high = sorted(int(n) for n in random.integers(least, reach, 2, endpoint=True))
    array = random.integers(low, high, () if scalar else (3, 4), endpoint=True).astype(dtype)
    if random.random() < 0.4:
        return constant(array), array
    known = Extremes(low if random.random() < 0.8 else None, high if random.random() < 0.8 else None)
    return Value(np.dtype(dtype).name, array.shape, extremes=known), array


def evaluated(op: str, arrays: list[np.ndarray], attributes: dict[str, object]) -> list[np.ndarray]:
    names = [f"i{position}" for position in range(len(arrays))]
    node = helper.make_node(op, names, ["y"], **attributes)
    types = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
    ]
    result = helper.make_empty_tensor_value_info("y")
    model = helper.make_model(
        helper.make_graph([node], "g", types, [result]), opset_imports=[helper.make_opsetid("", 21)]
    )
    with np.errstate(all="ignore"):
        return [np.asarray(r) for r in ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True)))]


def inferred(op: str, values: list[Value], attributes: dict[str, object], result: np.ndarray) -> Extremes:
    given = {name: onnx_ir.convenience.convert_attribute(name, value) for name, value in attributes.items()}
    node = Node(op, "", op, 21, given, (), (), {})
    context = Context(Shared(), relax.BlockBuilder())
    (found,) = with_ranges(context, node, values, (Value(result.dtype.name, result.shape),))
    assert isinstance(found, Value)
    return range_of(found)


def assert_holds(op: str, values: list[Value], arrays: list[np.ndarray], attributes: dict[str, object]) -> bool:
    """Assert that what is known of the result holds. Returns whether anything is known."""
    (result,) = evaluated(op, arrays, attributes)
    found = inferred(op, values, attributes, result)
    where = f"{op}{attributes} of {[(v.extremes, v.array) for v in values]}: {found}, {result}"
    assert found.low is None or int(found.low) <= int(result.min()), where
    assert found.high is None or int(found.high) >= int(result.max()), where
    return found != Extremes()


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("op", ELEMENTWISE)
def test_elementwise(op: str, dtype: type) -> None:
    random = np.random.default_rng(len(op))
    known = 0
    for _ in range(CASES // 4):
        operands = [
            operand(random, dtype, scalar=i > 0 and (op == "Clip" or random.random() < 0.7))
            for i in range(ELEMENTWISE[op])
        ]
        values, arrays = [v for v, _ in operands], [a for _, a in operands]
        if op in ("Div", "Mod") and not arrays[1].all():
            continue
        modes: list[dict[str, object]] = [{}, {"fmod": 1}] if op == "Mod" else [{}]
        for attributes in modes:
            known += assert_holds(op, values, arrays, attributes)
    assert known > 3, "a rule that never tells anything"


def test_moves_casts_and_choices() -> None:
    random = np.random.default_rng(0)
    for _ in range(CASES // 4):
        one, other = operand(random, np.int64, scalar=False), operand(random, np.int64, scalar=False)
        for op in MOVING:
            assert_holds(op, [one[0]], [one[1]], {})
        for target in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
            assert_holds("Cast", [one[0]], [one[1]], {"to": target})
        assert_holds("Concat", [one[0], other[0]], [one[1], other[1]], {"axis": 0})
        mask = random.random((3, 4)) < 0.5
        assert_holds("Where", [Value("bool", mask.shape), one[0], other[0]], [mask, one[1], other[1]], {})


def test_positions_and_counts() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 4)).astype(np.float32)
    for axis in (0, 1, -1):
        assert assert_holds("ArgMax", [Value("float32", x.shape)], [x], {"axis": axis})
    assert assert_holds("NonZero", [Value("float32", x.shape)], [x], {})
    for start, limit, delta in [(0, 7, 1), (3, -8, -2), (5, 6, 4)]:
        arrays = [np.array(n) for n in (start, limit, delta)]
        values = [Value("int64", (), extremes=Extremes(n, n + 3)) for n in (start, limit)] + [constant(arrays[2])]
        assert assert_holds("Range", values, arrays, {})


def test_every_rule_is_for_an_operator_of_the_standard() -> None:
    for op in RULES:
        onnx.defs.get_schema(op)
