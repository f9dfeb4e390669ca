"""Joined operators compute what the operators do, and separate gates become few products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploykit.compiler.batching.cells import Cell, Cells, compute
from deploykit.compiler.batching.control import Variable
from deploykit.compiler.batching.layout.joining import join
from deploykit.compiler.batching.operators import OPERATORS
from deploykit.compiler.batching.tensors import Apply, Expression, Filled, Known, Weight

SIZE = 3
WEIGHTS = {
    **{
        f"w{index}": np.random.default_rng(index).standard_normal((SIZE, SIZE)).astype(np.float32) for index in range(5)
    },
    **{f"b{index}": np.random.default_rng(9 + index).standard_normal(SIZE).astype(np.float32) for index in range(3)},
}
MATRICES = [Weight(array.shape, name) for name, array in WEIGHTS.items() if array.ndim == 2]
VECTORS = [Weight(array.shape, name) for name, array in WEIGHTS.items() if array.ndim == 1]
KNOWN = [Known((SIZE,), Variable(slot), varying=slot > 0) for slot in range(3)]
VALUES = [np.random.default_rng(20 + slot).standard_normal(SIZE).astype(np.float32) for slot in range(3)]
ONE = Filled((), 1.0)


def apply(operator: str, *operands: Expression, attributes: tuple[int, ...] = ()) -> Apply:
    shape = OPERATORS[operator].shape([each.shape for each in operands], attributes)
    return Apply(shape, operator, operands, attributes)


def recorded(wanted: Sequence[Expression], joined: Mapping[Expression, Expression]) -> tuple[Cell, list[np.ndarray]]:
    """The cell of expressions, and their values."""
    cells = Cells()
    _, operands = cells.record([joined.get(node, node) for node in wanted], {}, "cell")
    (cell,) = cells.cells
    values = [VALUES[operand.slot] for operand in operands if isinstance(operand, Variable)]
    return cell, compute(cell, values, (), WEIGHTS)


def joined_cell(*wanted: Expression) -> Cell:
    """The cell of joined expressions, which computes what they do."""
    _, expected = recorded(wanted, {})
    cell, found = recorded(wanted, join(wanted, {}))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return cell


def operators(cell: Cell) -> list[str]:
    return [entry.operator for entry in cell.entries if hasattr(entry, "operator") and entry.joined.operators]


@st.composite
def cells(draw: st.DrawFn) -> list[Expression]:
    """Wanted results of a random cell of vectors; half of its operators are products."""
    values: list[Expression] = [*KNOWN]
    for _ in range(draw(st.integers(1, 14))):
        operand = draw(st.sampled_from(values))
        match draw(st.integers(0, 7)):
            case 0 | 1 | 2:
                made = apply("matmul", operand, draw(st.sampled_from(MATRICES)))
            case 3:
                made = apply("matmul", draw(st.sampled_from(MATRICES)), operand)
            case 4 | 5:
                made = apply("add", operand, draw(st.sampled_from([*values[3:], *VECTORS, operand])))
            case 6:
                made = apply("multiply", operand, draw(st.sampled_from([*values, ONE])))
            case _:
                made = apply("tanh", operand)
        values.append(made)
    return draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=3, unique_by=id))


@settings(deadline=None, max_examples=300)
@given(cells())
def test_joined_cells_compute_the_same(wanted: list[Expression]) -> None:
    joined_cell(*wanted)


def gate(*terms: tuple[int, int]) -> Apply:
    """The sum of products, each of a value and a matrix."""
    first, *others = (apply("matmul", KNOWN[value], MATRICES[matrix]) for value, matrix in terms)
    for other in others:
        first = apply("add", first, other)
    return first


def test_products_of_one_operand_become_one() -> None:
    gates = [apply("tanh", gate((1, index))) for index in range(4)]
    cell = joined_cell(apply("multiply", apply("multiply", gates[0], gates[1]), apply("add", gates[2], gates[3])))
    assert operators(cell).count("matmul") == 1


def test_sums_of_products_become_one_product() -> None:
    biased = [apply("add", gate((1, index), (2, index + 2)), VECTORS[index]) for index in range(2)]
    cell = joined_cell(apply("multiply", apply("tanh", biased[0]), biased[1]))
    assert operators(cell) == ["matmul", "add", "tanh", "multiply"]
    assert (cell.entries and sum(each.operators for each in cell.joined), cell.joined[-1].operators) == (10, 1)


def test_three_products_become_one() -> None:
    third = apply("matmul", apply("tanh", KNOWN[2]), MATRICES[2])
    cell = joined_cell(apply("tanh", apply("add", gate((1, 0), (2, 1)), third)))
    assert operators(cell) == ["tanh", "matmul", "tanh"]


def test_what_does_not_vary_stays_apart() -> None:
    """The product of value 0 can run for all steps of a loop at once."""
    assert operators(joined_cell(gate((0, 0), (1, 1)))) == ["matmul", "matmul", "add"]


def test_matrices_from_the_left() -> None:
    found = [apply("matmul", MATRICES[index], KNOWN[1]) for index in range(3)]
    cell = joined_cell(apply("multiply", apply("tanh", found[0]), apply("add", found[1], found[2])))
    assert operators(cell).count("matmul") == 1


def test_operands_of_a_product_are_put_in_order() -> None:
    """`a, z, b = gates`: `(a * x) @ w` and `(b * y) @ v` are one product of what lies side by side."""
    a, z, b = (apply("tanh", gate((1, index), (2, index + 2))) for index in range(3))
    first = apply("matmul", apply("multiply", a, KNOWN[1]), MATRICES[3])
    second = apply("matmul", apply("multiply", b, KNOWN[2]), MATRICES[4])
    cell = joined_cell(apply("multiply", z, apply("tanh", apply("add", first, second))))
    assert operators(cell) == ["matmul", "tanh", "multiply", "matmul", "tanh", "multiply"]
    assert sum(each.gathered for each in cell.joined) == 0
    assert sum(each.beside for each in cell.joined) == 9


def test_other_operands_of_a_product_are_copied() -> None:
    first = apply("matmul", apply("tanh", KNOWN[1]), MATRICES[3])
    second = apply("matmul", apply("exp", KNOWN[2]), MATRICES[4])
    cell = joined_cell(apply("add", first, second))
    assert operators(cell) == ["tanh", "exp", "matmul"]
    assert sum(each.gathered for each in cell.joined) == 2


def test_results_are_computed_where_they_are_wanted() -> None:
    one, other = gate((1, 0)), gate((1, 1))
    assert operators(joined_cell(one, other)) == ["matmul", "matmul"]


def test_equal_expressions_are_one() -> None:
    cell = joined_cell(apply("add", apply("tanh", KNOWN[1]), apply("tanh", KNOWN[1])))
    assert operators(cell) == ["tanh", "add"]


@pytest.mark.parametrize("size", [100])
def test_large_cells(size: int) -> None:
    value: Expression = KNOWN[1]
    for index in range(size):
        gates = [apply("tanh", apply("matmul", value, MATRICES[(index + i) % 5])) for i in range(2)]
        value = apply("multiply", *gates)
    assert operators(joined_cell(value)).count("matmul") == size
