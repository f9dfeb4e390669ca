"""Products with weights in groups of few bits on GPUs: in words, whatever the format and the width of panels."""

from __future__ import annotations

import pytest
from tvm import te, tirx, topi

from deploykit.compiler.operators.anchors.grouped import GroupPacking, grouped_matmul
from deploykit.compiler.operators.quantized.groups import FORMATS, Grouped, grouped
from tests.compiler.schedules.test_gpu import N, divided, run, sample, texts

DEPTH = 96
CASES = {"one": (1, True), "few": (3, True), "a remainder": (9, True), "many": (701, False)}
"""Numbers of rows, and whether teams compute them."""


def weight(kind: str, columns: int) -> Grouped:
    found = grouped(sample((columns, DEPTH)), FORMATS[kind])
    assert found is not None
    return found


def product(packing: GroupPacking, rows: int | tirx.Var, *, fused: bool = False) -> tirx.PrimFunc:
    """The product, with a bias and a sign that are computed with it if it is `fused`."""
    blocks = packing.panels * packing.groups
    x = te.placeholder((rows, DEPTH), "float32", name="x")
    parts = [te.placeholder((blocks * packing.group_bytes,), "uint8", name="codes")]
    names = ("scales",) if packing.format.zero is not None else ("scales", "minima")
    parts += [te.placeholder((blocks * packing.width,), "float16", name=name) for name in names]
    result = grouped_matmul(x, *parts, packing=packing)
    more = [te.placeholder((packing.rows,), "float32", name="bias")] if fused else []
    result = topi.negative(topi.add(result, more[0])) if fused else result
    return te.create_prim_func([x, *parts, *more, result], index_dtype_override="int64")


@pytest.mark.parametrize("rows", CASES)
@pytest.mark.parametrize(("columns", "width"), [(64, 16), (50, 8), (52, 16), (36, 4)])
@pytest.mark.parametrize("kind", FORMATS)
def test_all_sizes(kind: str, columns: int, width: int, rows: str) -> None:
    count, team = CASES[rows]
    found, packing = weight(kind, columns), GroupPacking(FORMATS[kind], columns, DEPTH, width)
    func = product(packing, count)
    assert [part.team for part in divided(func).parts] == [team]
    assert "codes: array<vec4<u32>>;" in texts(func)[0]
    x = sample((count, DEPTH)) / 16
    arrays = [packing.codes(found.codes), *(packing.scales(part) for part in found.arrays[1:])]
    run(func, [x, *arrays], x @ found.floats().T)


@pytest.mark.parametrize("columns", [64, 50])
def test_what_follows_is_computed_with_it(columns: int) -> None:
    found, packing = weight("q4", columns), GroupPacking(FORMATS["q4"], columns, DEPTH, 16)
    x, bias = sample((5, DEPTH)), sample((columns,))
    arrays = [packing.codes(found.codes), packing.scales(found.scales)]
    run(product(packing, 5, fused=True), [x, *arrays, bias], -(x @ found.floats().T + bias))


def test_if_the_rows_are_not_known_one_of_three_shaders_computes_them() -> None:
    parts = divided(product(GroupPacking(FORMATS["q4"], 64, DEPTH, 16), N)).parts
    assert [part.team for part in parts] == [True, True, False]
