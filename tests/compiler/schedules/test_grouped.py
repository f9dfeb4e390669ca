"""Products with weights in groups of few bits on CPUs: as products in floats, and the same in tiles of any height."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx

from deploykit.compiler.operators.anchors.grouped import GroupPacking
from deploykit.compiler.operators.quantized.groups import FORMATS, GROUP, grouped
from deploykit.compiler.schedules import DEVICES
from deploykit.compiler.schedules.integer import grouped as schedules
from tests.compiler.schedules.harness import Compiled

DEPTH, COLUMNS, WIDTH = 96, 50, 16
N = tirx.Var("n", "int64")
DEVICE = DEVICES["x86-64-v3"]
PAIRS = next(dot for dot in schedules.GROUP_DOTS if dot.name == "pmaddwd")


def compiled(packing: GroupPacking) -> Compiled:
    blocks = packing.panels * packing.groups
    left = te.placeholder((N, DEPTH), "int16", name="left")
    left_scales = te.placeholder((N, packing.groups), "float32", name="left_scales")
    shares = te.placeholder((N, packing.groups), "int32" if packing.format.zero else "float32", name="shares")
    parts = [te.placeholder((blocks * packing.group_bytes,), "uint8", name="codes")]
    names = ("scales",) if packing.format.zero else ("scales", "minima")
    parts += [te.placeholder((blocks * packing.width,), "float16", name=name) for name in names]
    tensors = [left, left_scales, shares, *parts]
    result = schedules.product(*tensors, packing=packing, dot=PAIRS, device=DEVICE)
    return Compiled(te.create_prim_func([*tensors, result], index_dtype_override="int64"), DEVICE)


@pytest.mark.parametrize("kind", FORMATS)
def test_tall_tiles_of_pairs_give_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    weight = grouped(random.standard_normal((COLUMNS, DEPTH)).astype(np.float32), FORMATS[kind])
    assert weight is not None
    packing = GroupPacking(FORMATS[kind], COLUMNS, DEPTH, WIDTH)
    tall = compiled(packing)
    monkeypatch.setattr(schedules, "TALL_OF_PAIRS", 4)
    low = compiled(packing)
    assert "tiles" in str(tall.func)
    assert str(tall.func) != str(low.func)
    zero = packing.format.zero
    for rows in (1, 7, 8, 19):
        left = random.integers(-32512, 32513, (rows, DEPTH)).astype(np.int16)
        factors = random.random((rows, packing.groups)).astype(np.float32) / 32512
        totals = left.reshape(rows, -1, GROUP).sum(axis=2, dtype=np.int32)
        shares = totals.astype(np.float32) * factors if zero is None else totals * np.int32(-zero)
        arrays = [left, factors, shares, packing.codes(weight.codes), *(packing.scales(a) for a in weight.arrays[1:])]
        found = [np.full((rows, COLUMNS), np.nan, np.float32) for _ in range(2)]
        for kernel, result in zip((tall, low), found, strict=True):
            kernel.bind([*arrays, result])()
        assert np.array_equal(found[0], found[1])
        floats = left * np.repeat(factors, GROUP, axis=1)
        np.testing.assert_allclose(found[0], floats @ weight.floats().T, rtol=1e-4, atol=1e-4)
