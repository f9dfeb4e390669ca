"""Sizes that a condition selects: equal ones become one variable, and kernel and values stay the same."""

from __future__ import annotations

import numpy as np
import tvm_ffi
from tvm import te, tirx

from deploykit.compiler.lowering.conditional_sizes import apart_from_choices, name_choices
from deploykit.compiler.lowering.raw_abi import variables
from deploykit.compiler.schedules import schedule
from deploykit.compiler.schedules.kernel.stages import scalars_of
from tests.compiler.schedules.harness import VECTORS, Compiled

N = tirx.Var("n", "int64")


def steps() -> tirx.Select:
    """`(n - 10) / 5` rounded towards 0, plus 3."""
    return tirx.Select(N >= 10, (N - 10) // 5, (10 - N) // 5 * -1) + 3


def kernel() -> tirx.PrimFunc:
    x = te.placeholder((N, steps(), 3), name="x")
    y = te.placeholder((steps(), 3), name="y")
    z = te.compute((N, 3, steps()), lambda i, k, j: x[i, j, k] + y[steps() - 1 - j, k], name="z")
    return te.create_prim_func([x, y, z], index_dtype_override="int64")


def test_equal_choices_are_one_variable() -> None:
    func = kernel()
    plain, choices = name_choices(func, scalars_of(func))
    assert len(choices) == 1
    assert "Select" not in plain.script()
    seen: list[tirx.PrimFunc] = []
    restored = apart_from_choices(lambda f: seen.append(f) or f, func)
    assert tvm_ffi.structural_equal(seen[0], plain, map_free_vars=True)
    assert set(variables(restored.body)) & {choices[0].var} == set()
    assert N in variables(restored.body)


def test_kernels_scheduled_without_their_choices_compute_the_same() -> None:
    apart = Compiled(kernel(), VECTORS, lambda func, device: apart_from_choices(lambda f: schedule(f, device), func))
    whole = Compiled(kernel(), VECTORS)
    for n in (1, 4, 5, 9, 10, 14, 15, 41):
        count = int((n - 10) / 5) + 3
        rng = np.random.default_rng(n)
        x, y = (rng.standard_normal(shape).astype("float32") for shape in ((n, count, 3), (count, 3)))
        expected = x.transpose(0, 2, 1) + y[::-1].T
        for compiled in (apart, whole):
            out = np.zeros_like(expected, order="C")
            compiled.bind([x, y, out])()
            np.testing.assert_array_equal(out, expected)
